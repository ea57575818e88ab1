-- How jobs are claimed, whatever is in the queue.

-- Moves what is due, in bounded steps, unless the queue is paused. Says when the next one is due, and whether idle workers may
-- be needed.
local function promote(moves)
  local first, promoted = math.huge, false
  for _, key in ipairs({ K.scheduled, K.retry }) do
    local head = call('ZRANGE', key, '0', '0', 'WITHSCORES')
    if moves and head[2] and tonumber(head[2]) <= now then
      local ripe = call('ZRANGEBYSCORE', key, '-inf', ms(now), 'LIMIT', 0, 200)
      call('ZREM', key, unpack(ripe))
      promoted = push(ripe, false) or promoted
      head = call('ZRANGE', key, '0', '0', 'WITHSCORES')
    end
    first = math.min(first, tonumber(head[2]) or math.huge)
  end
  return first, promoted
end

-- The tombs of ids in a list, as they are stored.
local function tombs_of(found, list)
  local tombs = {}
  for at, id in ipairs(found) do
    tombs[at] = id .. list
  end
  return tombs
end

-- Drops the tombs at the head of a list, some hundred of them, so that they do not hide for long what lies behind.
local function pass_tombs(list)
  for _ = 1, 5 do
    local tombs = tombs_of(call('LRANGE', LISTS[list], 0, 99), list)
    local dropped = {}
    for at, tomb in ipairs(#tombs > 0 and call('HMGET', K.tomb, unpack(tombs)) or {}) do
      if not tomb then
        break
      end
      dropped[at] = tombs[at]
    end
    if #dropped > 0 then
      call('LTRIM', LISTS[list], #dropped, -1)
      call('HDEL', K.tomb, unpack(dropped))
    end
    if #dropped < 100 then
      return
    end
  end
end

local bytes, doubled = 0, 0

-- Takes over what was found, popped from a list or not, as long as the bodies fit into so many bytes, if there are large ones;
-- says what of it is alive, and how many of those were taken.
local function take(ids, found, list, max_bytes)
  if has_tombs and list and #found > 0 then
    local tombs = tombs_of(found, list)
    local buried = call('HMGET', K.tomb, unpack(tombs))
    local alive = {}
    for at = 1, #found do
      if buried[at] then
        call('HDEL', K.tomb, tombs[at])
      else
        table.insert(alive, found[at])
      end
    end
    found = alive
  end
  if list then
    local left = leave_those_in(K.active, found)
    doubled = doubled + (left and #left or 0)
    left = is_there(K.records) and leave_those_in(K.records, found)
    doubled = doubled + (left and #left or 0)
  end
  if not max_bytes then
    local n = #ids
    for at, id in ipairs(found) do
      ids[n + at] = id
    end
    return found, #found
  end
  for at, id in ipairs(found) do
    local size = call('HSTRLEN', K.jobs, id)
    if bytes > 0 and bytes + size > max_bytes then
      return found, at - 1
    end
    bytes, ids[#ids + 1] = bytes + size, id
  end
  return found, #found
end
