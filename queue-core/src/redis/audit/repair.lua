-- Finds damage and repairs it.
-- ARGV[1]    check     the check: a name of `CHECKS` in `audit/checks.lua`
-- ARGV[2..]  subjects  names, ids, members or pairs, as the check takes them
-- Returns: that of `audit/find.lua`
-- Errors: FEATURE, SCHEMA
-- Events: hint, hint_tick, hint_ended, transitions
--- include audit/checks, doors/settle, doors/end, doors/keys, doors/return_jobs, script/recount_bits

local has_work = false

local function review_group_later(group)
  review(group)
end

-- Removes a member without a job from a sorted set.
local function remove_member(_, key, member)
  call('ZREM', key, member)
end

-- Adds a tombstone for an id without a job in a list: to remove the id would move others.
local function add_tombstone_to(id, list)
  put_rare('t', K.tombstones, id .. list, '')
end

local function drop_tag(member, is_right)
  call(is_right and 'ZADD' or 'ZREM', K.tags, unpack(is_right and { '0', member } or { member }))
end

local function drop_from_line(member, place)
  drop_place(place.group, member)
end

local REPAIRS = {
  lanes = function(lane)
    call('ZADD', K.leases, ms(now), lane)
  end,
  -- The deadline that a renewal would set now.
  durations = function(lane, duration)
    call('ZADD', K.leases, ms(now + duration), lane)
  end,
  records = function(worker)
    for _, key in ipairs({ K.knows, K.workers, K.loads, K.asked }) do
      call('HDEL', key, worker)
    end
  end,
  workers = function(worker)
    call('HSET', K.workers, worker, C.no_record .. cmsgpack.pack(now))
  end,
  active = function(id, lane)
    if lane then
      call('HSET', K.fenced, lane, '')
      return
    end
    settle({ id })
    if not cancel_if_superseded(id) then
      return_to_ready({ id }, true)
    end
  end,
  strays = function(id)
    if not is_id(id) or call('HSTRLEN', K.jobs, id) == 0 then
      end_deleted({ id })
    elseif not cancel_if_superseded(id) then
      has_work = return_to_ready({ id }, false) or has_work
    end
  end,
  -- Replaces each further occurrence of an id in the lists by a new name with a tombstone: to
  -- remove the id would move others.
  doubled = function(id, others, lists)
    for _, other in ipairs(others) do
      local list, index = unpack(other)
      local name = '~' .. id .. ':' .. ms(now) .. ':' .. list .. ':' .. index
      call('LSET', lists[list], index, name)
      put_rare('t', K.tombstones, name .. list, '')
    end
  end,
  names = function(id, task)
    call('HSET', K.notes, id, task)
  end,
  unique = function(key)
    release_key(key)
  end,
  held = function(_, key, id, is_key_held)
    if is_key_held or not id then
      return_orphaned_waiter(key)
    else
      give_key_to_waiter(key)
    end
  end,
  keyed = function(id)
    reacquire_key(id)
  end,
  ticked = function(id)
    record_tick_ends({ id }, 'deleted')
    call('HDEL', K.ticked, id)
  end,
  tags = drop_tag,
  wrong_tags = drop_tag,
  untagged = function(member)
    add_members({ member })
  end,
  holders = function(member, group)
    drop_slot(group, member)
  end,
  grouped = function(id, note)
    take_slots(note.group, note.chain, id)
  end,
  front = function(group)
    free_line(group)
  end,
  eligible = review_group_later,
  asleep = review_group_later,
  chains = function(_, group, digit, chain)
    limits().remove(group, digit, chain)
    if limits().has_jobs(group, digit, chain) then
      limits().join(group, digit, chain)
    end
    review(group)
  end,
  shut = function(_, key)
    limits().recheck_keys({ key })
  end,
  numbered = function(group, place)
    call('ZREM', K.numbered, place)
    review(group)
  end,
  unchained = function(member, place)
    limits().number({ member })
    limits().join(place.group, place.digit, place.chain)
    review(place.group)
  end,
  line = drop_from_line,
  line_doubled = drop_from_line,
  suspect = add_tombstone_to,
  ready0 = add_tombstone_to,
  ready1 = add_tombstone_to,
  ready2 = add_tombstone_to,
  ready3 = add_tombstone_to,
  scheduled = remove_member,
  retry = remove_member,
  dead = remove_member,
  parked = remove_member,
}
local TIDIES = {
  bits = recount_bits,
  held = function(key)
    local id, due_at = waiter_for_key(key)
    store_waiter_for_key(key, due_at, id)
  end,
  keyed = function(id)
    call('HDEL', K.keyed, id)
  end,
  grouped = function(id)
    call('HDEL', K.grouped, id)
  end,
}

repair, tidy = REPAIRS[ARGV[1]], TIDIES[ARGV[1]]
local answer = CHECKS[ARGV[1]]()
if has_work then
  hint()
end
count('repaired', #broken)
if answer == nil then
  return broken
end
return answer
