-- Damage by other hands. ARGV: what to look at, '1' to repair it, and then names, ids, or pairs. Answers with what is broken.
--- include script/prelude, script/clock, script/bits, script/life, lease/terms, lease/deregister, doors/settle, doors/end, doors/keys, doors/back, script/recount_bits

local what, repairs = ARGV[1], ARGV[2] == '1'
local broken = {}

local function found(subject)
  broken[#broken + 1] = subject
end

-- Whether a job is `held`.
local function is_held_for_key(id)
  local stored = call('HGET', K.keyed, id)
  return stored and next_for(string.sub(stored, 1, 16)) == id
end

-- Whether a job, by what `grouped` has of it, is subject to the limit of a key.
local function has_key(stored, key)
  for _, other in ipairs(limits().keys_of(chain_in(stored))) do
    if other == key then
      return true
    end
  end
  return false
end

-- Whether the job of an id runs, waits for something but a free slot of a worker, or has ended, and is not dead.
local function is_elsewhere(id)
  local task = call('HGET', K.notes, id)
  return call('HEXISTS', K.active, id) == 1 or call('HEXISTS', K.records, id) == 1 or call('ZSCORE', K.scheduled, id)
    or call('ZSCORE', K.retry, id) or (task and call('ZSCORE', K.parked, task .. '\0' .. id)) or is_held_for_key(id)
end

-- The same, or it stands in the line of its group.
local function is_held(id)
  return is_elsewhere(id) or is_in_line(id)
end

-- Whether an id is where it can be looked up at once.
local function is_placed(id)
  return is_held(id) or call('ZSCORE', K.dead, id)
end

-- A lease that never ends is none either.
local function has_lease(lane)
  local deadline = call('ZSCORE', K.leases, lane)
  return deadline and whole(deadline) < FOREVER
end

-- Whether the index of tags should have this member for a job.
local function is_member(id, member)
  local members = {}
  members_of(id, call('HGET', K.jobs, id), members)
  for _, other in ipairs(members) do
    if other == member then
      return true
    end
  end
  return false
end

-- The most ids that one call reads in the lists.
local MOST = 5000

-- Between two marks, at most so many ids were pushed to `ready` as this number has grown: whatever is pushed was counted when it
-- was pushed, or when it began to wait for its time.
local function pushes()
  local sum = -call('ZCARD', K.scheduled) - call('ZCARD', K.retry) - call('HLEN', K.held)
  local counters = { 'enqueued', 'failed', 'snoozed', 'repeated', 'released', 'reclaimed', 'requeued', 'repaired', '.replaced' }
  for _, counter in ipairs(call('HMGET', K.counters, unpack(counters))) do
    sum = sum + whole(counter)
  end
  return sum
end

-- The most ids that were pushed since a mark.
local function come_since(marked_life, marked_pushes)
  local come = pushes() - marked_pushes
  if come < 0 or marked_life == '' or marked_life ~= life() then
    return math.huge
  end
  return come
end

-- By how many ids a list has grown behind those that were its last when at most so many were pushed since; nothing where those are gone.
local function growth(list, tail, come)
  local ids = call('LRANGE', LISTS[list], -(come + #tail), -1)
  for grown = 0, #ids - #tail do
    local from, at = #ids - #tail - grown, 1
    while at <= #tail and ids[from + at] == tail[at] do
      at = at + 1
    end
    if at > #tail then
      return grown
    end
  end
end

-- The places of an id in the lists: of each list its indices, the nearest to the head first. ARGV from a number to another: lists, and
-- distances from their tails before they have grown.
local function places_of(id, from, to, grown)
  local places = {}
  for at = from, to, 2 do
    local list = tonumber(ARGV[at])
    local index = grown[list] and call('LLEN', LISTS[list]) - 1 - ARGV[at + 1] - grown[list] or -1
    if index >= 0 and call('LRANGE', LISTS[list], index, index)[1] == id then
      places[list] = places[list] or {}
      table.insert(places[list], index)
    end
  end
  for _, indices in pairs(places) do
    table.sort(indices)
  end
  return places
end

-- What remains in a list of an id that is elsewhere as well: to take it out would move others. A tomb for it lies there already.
local function blank(list, index, id)
  local name = '~' .. id .. ':' .. ms(now) .. ':' .. list .. ':' .. index
  call('LSET', LISTS[list], index, name)
  put_rare('t', K.tomb, name .. list, '')
end

-- Takes those out of a set that are ready and may have been pushed since a mark. What was pushed at one end of a list has nothing
-- beyond it but what was pushed later. False: that may be too many to look through.
local function spare_ready(ids, marked_life, marked_pushes)
  local come, passed, looks = come_since(marked_life, marked_pushes), 0, {}
  for _, list in pairs(LISTS) do
    local length = call('LLEN', list)
    if length > 0 and length <= 2 * come then
      looks[#looks + 1] = { list, 0, length - 1 }
    elseif length > 0 and come > 0 then
      looks[#looks + 1] = { list, 0, come - 1 }
      looks[#looks + 1] = { list, -come, -1 }
    end
    passed = passed + math.min(length, 2 * come)
  end
  if passed > MOST then
    return false
  end
  for _, look in ipairs(looks) do
    for _, id in ipairs(call('LRANGE', unpack(look))) do
      ids[id] = nil
    end
  end
  return true
end

if what == 'balance' then
  -- More jobs than places, or more places than jobs.
  local places = -call('HLEN', K.tomb) + call('HLEN', K.active) + call('HLEN', K.records) + call('HLEN', K.held) + call('ZCARD', K.line)
  for _, key in ipairs({ K.scheduled, K.retry, K.parked, K.dead }) do
    places = places + call('ZCARD', key)
  end
  for _, list in pairs(LISTS) do
    places = places + call('LLEN', list)
  end
  return call('HLEN', K.jobs) - places
elseif what == 'bits' then
  -- Bits that the queue lacks: there is something that they tell of, put there by another program.
  for bit in string.gmatch(missing_bits(), '.') do
    found(bit)
  end
  if repairs then
    recount_bits()
  end
elseif what == 'lanes' then
  for i = 3, #ARGV do
    if call('HEXISTS', K.lanes, ARGV[i]) == 1 and not has_lease(ARGV[i]) then
      found(ARGV[i])
      if repairs then
        call('ZADD', K.leases, ms(now), ARGV[i])
      end
    end
  end
elseif what == 'terms' then
  -- Lanes whose deadline lies further ahead than their lease is long; the repair is the end that a renewal would give it now.
  for i = 3, #ARGV do
    local deadline = call('ZSCORE', K.leases, ARGV[i])
    local term = deadline and is_ahead(ARGV[i], deadline)
    if term then
      found(ARGV[i])
      if repairs then
        call('ZADD', K.leases, ms(now + term), ARGV[i])
      end
    end
  end
elseif what == 'records' then
  -- Records of workers that have no lane.
  local stay = with_lanes()
  for i = 3, #ARGV do
    local stored = call('HEXISTS', K.workers, ARGV[i]) + call('HEXISTS', K.loads, ARGV[i]) + call('HEXISTS', K.asked, ARGV[i])
    if not stay[ARGV[i]] and stored > 0 then
      found(ARGV[i])
      if repairs then
        call('HDEL', K.workers, ARGV[i])
        call('HDEL', K.loads, ARGV[i])
        call('HDEL', K.asked, ARGV[i])
      end
    end
  end
elseif what == 'workers' then
  -- Workers whose record is missing, or still the damaged one that was seen. ARGV: pairs of a lane and that record, or ''.
  for i = 3, #ARGV, 2 do
    local worker = worker_of(ARGV[i])
    if call('HEXISTS', K.lanes, ARGV[i]) == 1 and (call('HGET', K.workers, worker) or '') == ARGV[i + 1] then
      found(worker)
      if repairs then
        call('HSET', K.workers, worker, C.no_record .. cmsgpack.pack(now))
      end
    end
  end
elseif what == 'active' then
  for i = 3, #ARGV, 2 do
    local id, tag = ARGV[i], ARGV[i + 1]
    local lane = lane_of(tag)
    if call('HGET', K.active, id) == tag
      and not (lane and (call('HEXISTS', K.lanes, lane) == 1 or call('HEXISTS', K.fenced, lane) == 1)) then
      found(id)
      if repairs and lane then
        call('HSET', K.fenced, lane, '')
      elseif repairs then
        settle({ id })
        if not superseded(id) then
          back({ id }, true)
        end
      end
    end
  end
elseif what == 'unplaced' then
  for i = 3, #ARGV do
    if not is_placed(ARGV[i]) then
      found(ARGV[i])
    end
  end
  return broken
elseif what == 'mark' then
  local mark = { life(), ms(pushes()) }
  for _, list in ipairs({ 9, 0, 1, 2, 3 }) do
    mark[#mark + 1] = call('LLEN', LISTS[list])
  end
  return mark
elseif what == 'strays' then
  -- Jobs that are in no place, and in `ready` not since a mark. ARGV: the mark's life and pushes, ids. False: nobody knows.
  local lost = {}
  for i = 5, #ARGV do
    lost[ARGV[i]] = true
  end
  if not spare_ready(lost, ARGV[3], tonumber(ARGV[4])) then
    return false
  end
  for i = 5, #ARGV do
    local id = ARGV[i]
    if lost[id] and call('HEXISTS', K.jobs, id) == 1 and not is_placed(id) then
      found(id)
    end
  end
  if repairs then
    local sound = {}
    for _, id in ipairs(broken) do
      if is_id(id) and call('HSTRLEN', K.jobs, id) > 0 then
        if not superseded(id) then
          sound[#sound + 1] = id
        end
      else
        end_gone({ id })
      end
    end
    if back(sound, false) then
      hint()
    end
  end
elseif what == 'elsewhere' then
  -- Those of some ids, which were seen in `ready`, that are in another place.
  local ids, elsewhere = { unpack(ARGV, 3) }, {}
  for _, look in ipairs({
    { 'HMGET', K.active }, { 'HMGET', K.records }, { 'ZMSCORE', K.scheduled }, { 'ZMSCORE', K.retry }, { 'ZMSCORE', K.dead },
  }) do
    for at, found in ipairs(call('EXISTS', look[2]) == 1 and call(look[1], look[2], unpack(ids)) or {}) do
      elsewhere[at] = elsewhere[at] or found
    end
  end
  for at, task in ipairs(call('EXISTS', K.parked) == 1 and call('HMGET', K.notes, unpack(ids)) or {}) do
    elsewhere[at] = elsewhere[at] or task and call('ZSCORE', K.parked, task .. '\0' .. ids[at])
  end
  for at, id in ipairs(ids) do
    if elsewhere[at] or call('EXISTS', K.held) == 1 and is_held_for_key(id) or is_in_line(id) then
      found(id)
    end
  end
  return broken
elseif what == 'doubled' then
  -- Ids of jobs that are in several places. ARGV: a mark's life and pushes; how many lists, and of each its digit, a number of ids, and so
  -- many that were its last; of each suspicious id: it, how many places it was seen at, and of each the list and the distance from its
  -- tail. False: it would take too long to find them again.
  local come = come_since(ARGV[3], tonumber(ARGV[4]))
  if (come + 1) * ARGV[5] > MOST then
    return false
  end
  local grown, at = {}, 6
  for _ = 1, ARGV[5] do
    local list, to = tonumber(ARGV[at]), at + 1 + ARGV[at + 1]
    grown[list], at = growth(list, { unpack(ARGV, at + 2, to) }, come), to + 1
  end
  while at <= #ARGV do
    local id, to = ARGV[at], at + 1 + 2 * ARGV[at + 1]
    if call('HEXISTS', K.jobs, id) == 1 then
      local places = places_of(id, at + 2, to, grown)
      local belongs = call('HEXISTS', K.crashes, id) == 1 and 9 or list_of(levels_of({ id }, 1, 1)[1])
      -- A job that has died has a note; one that has none is not dead.
      local stays = is_held(id) or call('HEXISTS', K.notes, id) == 1 and call('ZSCORE', K.dead, id)
      local others = {}
      for _, list in ipairs({ belongs, 9, 0, 1, 2, 3 }) do
        local indices = places[list] or {}
        places[list] = nil
        -- A tomb takes the first, whenever that is popped.
        for nth = call('HEXISTS', K.tomb, id .. list) == 1 and 2 or 1, #indices do
          if stays then
            others[#others + 1] = { list, indices[nth] }
          end
          stays = true
        end
      end
      if #others > 0 then
        found(id)
        for _, other in ipairs(repairs and others or {}) do
          blank(other[1], other[2], id)
        end
      end
    end
    at = to + 1
  end
elseif what == 'names' then
  -- Parked jobs that no longer say of which task they are: nobody could tell that they are parked. ARGV: members.
  for i = 3, #ARGV do
    local task, id = string.match(ARGV[i], '^([^%z]*)%z(.*)$')
    if id and call('HEXISTS', K.jobs, id) == 1 and call('ZSCORE', K.parked, ARGV[i]) and not is_placed(id) then
      found(id)
      if repairs then
        call('HSET', K.notes, id, task)
      end
    end
  end
elseif what == 'unique' then
  -- Keys that are held by no job that could hold them. ARGV: keys.
  for i = 3, #ARGV do
    if call('HEXISTS', K.unique, ARGV[i]) == 1 and not holder_of(ARGV[i])
      and not (string.find(call('HGET', K.unique, ARGV[i]), '^@%d+:%d+:') and call('ZSCORE', K.within, ARGV[i])) then
      found(ARGV[i])
      if repairs then
        free_key(ARGV[i])
      end
    end
  end
elseif what == 'held' then
  -- Jobs that are held for a key which nobody holds, and ids without a job. ARGV: keys.
  for i = 3, #ARGV do
    if call('HEXISTS', K.held, ARGV[i]) == 1 and not (holder_of(ARGV[i]) and next_for(ARGV[i])) then
      found(next_for(ARGV[i]) or ARGV[i])
      if repairs and (holder_of(ARGV[i]) or not next_for(ARGV[i])) then
        drop_held(ARGV[i])
      elseif repairs then
        follow(ARGV[i])
      end
    elseif repairs and next_for(ARGV[i]) then
      hold_for(ARGV[i], select(2, next_for(ARGV[i])), (next_for(ARGV[i])))
    end
  end
elseif what == 'keyed' then
  -- Jobs that have not ended and whose key nobody holds, unless a person has taken it. What is noted of a job that is not there is taken away. ARGV: ids.
  for i = 3, #ARGV do
    local stored = call('HGET', K.keyed, ARGV[i])
    local key, hold, since = key_in(stored or '')
    if stored and (call('HEXISTS', K.jobs, ARGV[i]) == 0 or call('HEXISTS', K.records, ARGV[i]) == 1) then
      call(repairs and 'HDEL' or 'HGET', K.keyed, ARGV[i])
    elseif stored and hold ~= 'w' and since > 0 and not (hold == 's' and call('HEXISTS', K.active, ARGV[i]) == 1)
      and not call('ZSCORE', K.dead, ARGV[i]) and not is_held_for_key(ARGV[i]) and not holder_of(key) then
      found(ARGV[i])
      if repairs then
        younger(ARGV[i])
      end
    end
  end
elseif what == 'ticked' then
  -- Jobs that a schedule counts as not ended, and that have ended or are not there. ARGV: ids.
  for i = 3, #ARGV do
    local id = ARGV[i]
    if call('HEXISTS', K.ticked, id) == 1
      and (call('HEXISTS', K.jobs, id) == 0 or call('HEXISTS', K.records, id) == 1 or call('ZSCORE', K.dead, id)) then
      found(id)
      if repairs then
        end_ticks({ id }, 'deleted')
        call('HDEL', K.ticked, id)
      end
    end
  end
elseif what == 'tags' or what == 'every_tag' then
  -- Members of the index of tags whose job is not there, or, of `every_tag`, does not have the tag. ARGV: members.
  for i = 3, #ARGV do
    local id, score = string.sub(ARGV[i], 9), call('ZSCORE', K.tags, ARGV[i])
    local is_right = call('HEXISTS', K.jobs, id) == 1 and (what == 'tags' or is_member(id, ARGV[i]))
    if score and (not is_right or tonumber(score) ~= 0) then
      found(id)
      if repairs and is_right then
        call('ZADD', K.tags, '0', ARGV[i])
      elseif repairs then
        call('ZREM', K.tags, ARGV[i])
      end
    end
  end
elseif what == 'untagged' then
  -- Jobs with tags that the index does not have. ARGV: ids.
  for i = 3, #ARGV do
    local members, misses = {}, false
    members_of(ARGV[i], call('HGET', K.jobs, ARGV[i]), members)
    for _, member in ipairs(members) do
      misses = misses or not call('ZSCORE', K.tags, member)
    end
    if misses then
      found(ARGV[i])
      if repairs then
        add_members(members)
      end
    end
  end
elseif what == 'holders' then
  -- Slots of groups whose jobs do not run. ARGV: members.
  for i = 3, #ARGV do
    local is_key = byte(ARGV[i]) == 255
    local group = is_key and string.sub(ARGV[i], 1, 17) or string.sub(ARGV[i], 1, 2 + (byte(ARGV[i], 1) or 0) * 256 + (byte(ARGV[i], 2) or 0))
    local id = string.sub(ARGV[i], #group + 2)
    local stored = call('HGET', K.grouped, id)
    local is_right = stored and (is_key and has_key(stored, string.sub(group, 2)) or not is_key and group_in(stored) == group)
    if call('ZSCORE', K.holders, ARGV[i]) and (call('HEXISTS', K.active, id) == 0 or not is_right) then
      found(ARGV[i])
      if repairs then
        drop_slot(group, ARGV[i])
      end
    end
  end
elseif what == 'grouped' then
  -- Jobs of groups that run and have no slot. What is noted of a job that is not there is taken away. ARGV: ids.
  for i = 3, #ARGV do
    local id, stored = ARGV[i], call('HGET', K.grouped, ARGV[i])
    if stored and (call('HEXISTS', K.jobs, id) == 0 or call('HEXISTS', K.records, id) == 1) then
      call(repairs and 'HDEL' or 'HGET', K.grouped, id)
    elseif stored and call('HEXISTS', K.active, id) == 1 then
      local slots, misses = limits().slots(chain_in(stored), id), false
      slots[#slots + 1] = group_in(stored) .. '\0' .. id
      for _, slot in ipairs(slots) do
        misses = misses or not call('ZSCORE', K.holders, slot)
      end
      if misses then
        found(id)
        if repairs then
          take_slots(group_in(stored), chain_in(stored), id)
        end
      end
    end
  end
elseif what == 'front' then
  -- Lines of ordered groups that are held by a job which has ended. ARGV: groups.
  for i = 3, #ARGV do
    local id = call('HGET', K.front, ARGV[i])
    if id and (call('HEXISTS', K.jobs, id) == 0 or call('HEXISTS', K.records, id) == 1 or call('ZSCORE', K.dead, id)) then
      found(ARGV[i])
      if repairs then
        free_line(ARGV[i])
      end
    end
  end
elseif what == 'turns' then
  -- Groups that have their turn, and nothing that may start. ARGV: groups.
  for i = 3, #ARGV do
    if is_out_of_turn(ARGV[i]) then
      found(ARGV[i])
      if repairs then
        review(ARGV[i])
      end
    end
  end
elseif what == 'asleep' then
  -- Groups that have a job that may start, and no turn. ARGV: behind which place of `line` to begin, or ''; how many groups. Answers: where to go on, or '', and them.
  local from = ARGV[3] == '' and '-' or '(' .. ARGV[3]
  for _ = 1, ARGV[4] do
    local member = call('ZRANGEBYLEX', K.line, from, '+', 'LIMIT', 0, 1)[1]
    if not member then
      from = '('
      break
    end
    local group, _, is_suspect = parts_of(member)
    if is_out_of_turn(group) then
      found(group)
      if repairs then
        review(group)
      end
    end
    from = '(' .. (is_suspect and '\255' or '') .. group .. '\255'
  end
  if repairs then
    count('repaired', #broken)
  end
  return { string.sub(from, 2), unpack(broken) }
elseif what == 'chains' then
  -- Chains that are neither open nor shut as is noted of them, or have no job. ARGV: chains.
  for i = 3, #ARGV do
    local behind = 3 + (byte(ARGV[i], 1) or 0) * 256 + (byte(ARGV[i], 2) or 0)
    local group, digit, chain = string.sub(ARGV[i], 1, behind - 1), string.sub(ARGV[i], behind, behind), string.sub(ARGV[i], behind + 1)
    local place = call('HGET', K.chains, ARGV[i])
    if place and not limits().is_sound(group, digit, chain, place) then
      found(ARGV[i])
      if repairs then
        limits().remove(group, digit, chain)
        if limits().has_jobs(group, digit, chain) then
          limits().join(group, digit, chain)
        end
        review(group)
      end
    end
  end
elseif what == 'shut' then
  -- Keys that have room, and chains that are shut under them, and that nobody will look at. ARGV: members of `shut`.
  for i = 3, #ARGV do
    local key = string.sub(ARGV[i], 1, 16)
    if call('ZSCORE', K.shut, ARGV[i]) and not limits().is_watched(key) then
      found(ARGV[i])
      if repairs then
        limits().loosen({ key })
      end
    end
  end
elseif what == 'numbered' then
  -- Places in the order of a group that no job has. ARGV: members of `numbered`.
  for i = 3, #ARGV do
    local behind = 3 + (byte(ARGV[i], 1) or 0) * 256 + (byte(ARGV[i], 2) or 0)
    local member = is_in_line(string.sub(ARGV[i], behind + 8))
    if call('ZSCORE', K.numbered, ARGV[i]) and not (member and limits().numbered(member) == ARGV[i]) then
      local group = string.sub(ARGV[i], 1, behind - 1)
      found(group)
      if repairs then
        call('ZREM', K.numbered, ARGV[i])
        review(group)
      end
    end
  end
elseif what == 'unchained' then
  -- Places in the line with limits whose chain is neither open nor shut, or that are not in the order of their group. ARGV: members.
  for i = 3, #ARGV do
    local group, _, is_suspect, chain, digit = parts_of(ARGV[i])
    local place = not is_suspect and limits().numbered(ARGV[i])
    if #chain > 1 and not is_suspect and call('ZSCORE', K.line, ARGV[i])
      and (call('HEXISTS', K.chains, group .. digit .. chain) == 0 or place and not call('ZSCORE', K.numbered, place)) then
      found(ARGV[i])
      if repairs then
        limits().number({ ARGV[i] })
        limits().join(group, digit, chain)
        review(group)
      end
    end
  end
elseif what == 'line' then
  -- Places in the lines of groups without a job. ARGV: members.
  for i = 3, #ARGV do
    local group, id = parts_of(ARGV[i])
    if call('HEXISTS', K.jobs, id) == 0 and call('ZSCORE', K.line, ARGV[i]) then
      found(ARGV[i])
      if repairs then
        drop_place(group, ARGV[i])
      end
    end
  end
elseif what == 'line_doubled' then
  -- Places in the lines of groups of jobs that are elsewhere, or in another place there. ARGV: members.
  for i = 3, #ARGV do
    local group, id = parts_of(ARGV[i])
    if call('HEXISTS', K.jobs, id) == 1 and call('ZSCORE', K.line, ARGV[i])
      and (is_elsewhere(id) or call('HEXISTS', K.notes, id) == 1 and call('ZSCORE', K.dead, id) or (is_in_line(id) or ARGV[i]) ~= ARGV[i]) then
      found(ARGV[i])
      if repairs then
        drop_place(group, ARGV[i])
      end
    end
  end
elseif what == 'suspect' or string.match(what, '^ready%d$') then
  -- Ids in a list; the repair is a tomb, as to take one out would move others. ARGV: the first, the last of them.
  local list = tonumber(string.match(what, '%d$')) or 9
  for _, id in ipairs(call('LRANGE', LISTS[list], ARGV[3], ARGV[4])) do
    if call('HEXISTS', K.jobs, id) == 0 and call('HEXISTS', K.tomb, id .. list) == 0 then
      found(id)
      if repairs then
        put_rare('t', K.tomb, id .. list, '')
      end
    end
  end
else
  -- Ids in a sorted set, named by its key. ARGV: members.
  local key = ({ scheduled = K.scheduled, retry = K.retry, dead = K.dead, parked = K.parked })[what]
  for i = 3, #ARGV do
    local member = ARGV[i]
    local id = what == 'parked' and string.match(member, '%z(.*)$') or member
    if id and call('HEXISTS', K.jobs, id) == 0 and call('ZSCORE', key, member) then
      found(id)
      if repairs then
        call('ZREM', key, member)
      end
    end
  end
end
if repairs then
  count('repaired', #broken)
end
return broken
