-- The lists of jobs that may start now, and the sparse hashes beside them. An id waits in the lists at most once (R9): a cancelled
-- one stays where it is under a tomb, of an id in a list, and whoever would push the id to that list again takes the tomb away
-- instead. Ids leave a list at its head and come in at either end; what is between is never moved or taken out, so that the auditor
-- can read it beside all that.

local LISTS = { [0] = K.ready0, [1] = K.ready1, [2] = K.ready2, [3] = K.ready3, [9] = K.suspect }
local ORDER = { 0, 1, 2, 3 }

local has_tombs = sparse and call('EXISTS', K.tomb) == 1
local has_priorities = sparse and call('EXISTS', K.priority) == 1
local has_crashes = sparse and call('EXISTS', K.crashes) == 1

-- Takes an id's tomb in this list. True: so it lies there already. A tomb in another list stays, for whoever pops the id there.
local function unearth(id, list)
  return call('HDEL', K.tomb, id .. list) == 1
end

-- The list of a priority.
local function list_of(priority)
  local list = tonumber(priority)
  return list and list <= 3 and LISTS[list] and list or 2
end

-- Lays an id that is ready under a tomb: it lies where its crashes and its priority had it pushed.
local function entomb(id)
  put(K.tomb, id .. (call('HEXISTS', K.crashes, id) == 1 and 9 or list_of(call('HGET', K.priority, id))), '')
end

-- Pushes ids to the list that each belongs to. True: one of the lists was empty before.
local function push(ids, at_head)
  if #ids == 0 then
    return false
  end
  local lists = { [2] = ids }
  if has_tombs or has_priorities or has_crashes then
    lists = {}
    for from = 1, #ids, PIECE do
      local to = math.min(from + PIECE - 1, #ids)
      local priorities = has_priorities and call('HMGET', K.priority, unpack(ids, from, to))
      local crashes = has_crashes and call('HMGET', K.crashes, unpack(ids, from, to))
      for i = from, to do
        local list = 2
        if crashes and crashes[i - from + 1] then
          list = 9
        elseif priorities and priorities[i - from + 1] then
          list = list_of(priorities[i - from + 1])
        end
        if not (has_tombs and unearth(ids[i], list)) then
          lists[list] = lists[list] or {}
          table.insert(lists[list], ids[i])
        end
      end
    end
  end
  local was_empty = false
  for list, members in pairs(lists) do
    was_empty = many(at_head and 'LPUSH' or 'RPUSH', LISTS[list], members) == #members or was_empty
  end
  return was_empty
end

-- Lets jobs wait: pairs of a time and an id.
local function wait(key, pairs_)
  if #pairs_ == 0 then
    return
  end
  local first = nil
  for i = 1, #pairs_, 2 do
    local at = tonumber(pairs_[i])
    if not first or at < first then
      first = at
    end
  end
  many('ZADD', key, pairs_)
  local head = call('ZRANGE', key, 0, 0, 'WITHSCORES')
  if tonumber(head[2]) >= first then
    hint(first)
  end
end
