-- The lists of jobs that may start now, and the sets of jobs that wait for their time. An id is in
-- the lists of `ready` at most once (R9). The id of a cancelled job stays in its list under a
-- tombstone, which names the id and the list. A later push of the id to that list removes the
-- tombstone instead. Ids are removed only at the head of a list and added only at its ends. Because
-- the ids between are never moved, the auditor can read a list while other scripts use it.
--- include script/tools, script/hint, script/rare, doors/groups, doors/transitions

local LISTS = { [0] = K.ready0, [1] = K.ready1, [2] = K.ready2, [3] = K.ready3, [9] = K.suspect }

-- Removes the tombstone of an id for this list. True: there was one, so the id is in the list
-- already. A tombstone for another list stays until the id is popped there.
local function remove_tombstone(id, list)
  return call('HDEL', K.tombstones, id .. list) == 1
end

-- The list of a priority.
local function list_of(priority)
  local list = tonumber(priority)
  return list and list <= 3 and LISTS[list] and list or 2
end

-- Adds a tombstone for a ready id, in the list to which it was pushed (suspects, or its priority).
local function add_tombstone(id)
  put_rare('t', K.tombstones, id .. (call('HEXISTS', K.crashes, id) == 1 and 9 or list_of(levels_of({ id }, 1, 1)[1])), '')
end

-- Puts ids to an end of the list that each belongs to. True: one of the lists was empty before.
local function push_to_lists(ids, at_head)
  local was_empty = false
  if has('g') then
    ids, was_empty = push_grouped(ids, at_head)
  end
  if #ids == 0 then
    return was_empty
  end
  local lists, has_tombstones = { [2] = ids }, has('t')
  if has_tombstones or has('p') or has('c') then
    lists = {}
    for from = 1, #ids, PIECE do
      local to = math.min(from + PIECE - 1, #ids)
      local priorities = has('p') and levels_of(ids, from, to)
      local crashes = has('c') and call('HMGET', K.crashes, unpack(ids, from, to))
      for i = from, to do
        local list = 2
        if crashes and crashes[i - from + 1] then
          list = 9
        elseif priorities and priorities[i - from + 1] then
          list = list_of(priorities[i - from + 1])
        end
        if not (has_tombstones and remove_tombstone(ids[i], list)) then
          lists[list] = lists[list] or {}
          table.insert(lists[list], ids[i])
        end
      end
    end
  end
  for list, members in pairs(lists) do
    was_empty = call_in_pieces(at_head and 'LPUSH' or 'RPUSH', LISTS[list], members) == #members or was_empty
  end
  return was_empty
end

-- The same with jobs that were not ready.
local function push(ids, at_head)
  record_entered(ids, 'ready')
  start_aging(ids, at_head)
  return push_to_lists(ids, at_head)
end

-- The ids at the head of a list, which stay there.
local function peek_heads(list, n)
  return call('LRANGE', LISTS[list], '0', ms(n - 1))
end

-- Takes at most `n` ids from the head of a list.
local function pop_heads(list, n)
  if n > 0 then
    call('LPOP', LISTS[list], ms(n))
  end
end

-- Puts ids back to the head of a list from which they were taken, in their order.
local function put_back(list, ids)
  local back_to_front = {}
  for at = #ids, 1, -1 do
    back_to_front[#back_to_front + 1] = ids[at]
  end
  call_in_pieces('LPUSH', LISTS[list], back_to_front)
  count('.replaced', #ids)
end

-- Takes some of those out that have waited for their time.
local function pop_due(key)
  local due_ids = call('ZRANGEBYSCORE', key, '-inf', ms(now), 'LIMIT', 0, C.due_items)
  call_in_pieces('ZREM', key, due_ids)
  record_left(due_ids, key == K.retry and 'retry' or 'scheduled')
  return due_ids
end

-- The ids of parked jobs of a task, after one. They stay parked.
local function parked_ids(task, most, behind)
  local from = behind and '(' .. task .. '\0' .. behind or '[' .. task .. '\0'
  local ids = call('ZRANGEBYLEX', K.parked, from, '(' .. task .. '\1', 'LIMIT', 0, most)
  for at, member in ipairs(ids) do
    ids[at] = string.sub(member, #task + 2)
  end
  return ids
end

-- The names under which jobs of a task are parked because releases could not read them, except for
-- names with this release. The jobs of one name are skipped together. Beyond the first 100 names,
-- the next claim of this release continues where this one stops.
local function readable_by(release, task)
  local names, from = {}, '[' .. task .. '\1'
  for at = 1, 200 do
    if at == 101 then
      from = call('HGET', K.meta, 'readable:' .. release .. '\1' .. task) or from
    end
    local name = string.match(call('ZRANGEBYLEX', K.parked, from, '(' .. task .. '\2', 'LIMIT', 0, 1)[1] or '', '^(%Z+)%z')
    if not name then
      if at > 100 then
        call('HDEL', K.meta, 'readable:' .. release .. '\1' .. task)
      end
      return names
    end
    if not string.find(name .. '\1', '\1' .. release .. '\1', 1, true) then
      names[#names + 1] = name
    end
    from = '[' .. name .. '\1'
  end
  call('HSET', K.meta, 'readable:' .. release .. '\1' .. task, from)
  return names
end

local function remove_parked(task, id)
  call('ZREM', K.parked, task .. '\0' .. id)
  call('HDEL', K.notes, id)
  record_left({ id }, 'parked')
end

-- Lets jobs wait for their time: pairs of a time and an id.
local function store_waiting(key, pairs_)
  if #pairs_ == 0 then
    return
  end
  local first, ids = math.huge, {}
  for i = 1, #pairs_, 2 do
    first = math.min(first, tonumber(pairs_[i]))
    ids[#ids + 1] = pairs_[i + 1]
  end
  record_entered(ids, key == K.retry and 'retry' or 'scheduled')
  note_next_due(first)
  call_in_pieces('ZADD', key, pairs_)
  local head = call('ZRANGE', key, 0, 0, 'WITHSCORES')
  if tonumber(head[2]) >= first then
    hint(first)
  end
end

-- Takes an id out of `held`. False: it is not there.
local function remove_held(id)
  local stored = call('HGET', K.keyed, id)
  local key = stored and string.sub(stored, 1, 16)
  if not key or string.match(call('HGET', K.held, key) or '', '^%d+:(.*)$') ~= id then
    return false
  end
  record_left({ id }, 'held')
  redis.pcall('ZREM', K.holds, id)
  return call('HDEL', K.held, key) == 1
end

-- Removes an id that waits in any state from its place.
local function remove_waiting(id)
  if has('u') and remove_held(id) then
    return
  end
  if call('ZREM', K.scheduled, id) == 1 then
    record_left({ id }, 'scheduled')
  elseif call('ZREM', K.retry, id) == 1 then
    record_left({ id }, 'retry')
  else
    record_left({ id }, 'ready')
    local task = call('HGET', K.notes, id)
    if task then
      remove_parked(task, id)
    elseif not (has('g') and leave_line(id)) then
      add_tombstone(id)
    end
    if has('o') then
      stop_aging({ id })
    end
  end
end
