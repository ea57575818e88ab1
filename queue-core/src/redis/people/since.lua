-- Finds out since when jobs could start.
--- include doors/groups

-- The options of an envelope: its map without the payload, which is the first field. The server's
-- MessagePack library cannot decode binary values.
local function options(envelope, first)
  local fields, marker = byte(envelope, first) or 0, byte(envelope, first + 3)
  local bytes = marker and 2 ^ (marker - 196)
  if fields < 129 or fields > 143 or string.sub(envelope, first + 1, first + 2) ~= '\161p' or (bytes ~= 1 and bytes ~= 2 and bytes ~= 4) then
    return {}
  end
  local length = 0
  for place = first + 4, first + 3 + bytes do
    length = length * 256 + (byte(envelope, place) or 0)
  end
  return unpacked(string.char(fields - 1) .. string.sub(envelope, first + 4 + bytes + length)) or {}
end

-- The time since which a job of a list, or of the line of a group, could start. nil if unknown: the
-- job is gone, has waited for another time meanwhile, or its task repeats.
local function startable_since(id, list)
  local envelope = call('HGET', K.jobs, id)
  if
    not envelope or #envelope < 9 or byte(envelope) ~= 1 or (list and call('HGET', K.tombstones, id .. list)) or call('HGET', K.attempts, id)
    or call('HGET', K.snoozes, id) or call('HGET', K.crashes, id)
  then
    return nil
  end
  local at, since = 3 + byte(envelope, 2), 0
  for place = at, at + 5 do
    since = since * 256 + (byte(envelope, place) or 0)
  end
  local task = call('HGET', K.tasks, string.sub(envelope, 3, at - 1))
  if since == 0 or (task and string.find(task, 'r', 1, true)) then
    return nil
  end
  local map = options(envelope, at + 6)
  return math.max(since + whole(map.d or 0), whole(map.t or 0))
end

-- The number of further chains that one script examines, in addition to the first chain of each
-- priority of a group. nil: not determined yet.
local more_chains = nil

local function chain_of(member)
  local _, _, _, chain = parts_of(member)
  return chain
end

-- The time since which the oldest ready job of a group could start. Of each priority, the first
-- jobs of its first chains are examined.
local function oldest_startable_since(group)
  local oldest = nil
  for digit = 0, 3 do
    local from = '[' .. group .. digit
    for _ = 1, C.heads do
      local members = call('ZRANGEBYLEX', K.line, from, '(' .. group .. digit + 1, 'LIMIT', 0, C.heads)
      local chain = members[1] and chain_of(members[1])
      for _, member in ipairs(members) do
        local _, id, _, its_chain = parts_of(member)
        local since = its_chain == chain and startable_since(id)
        if since or its_chain ~= chain then
          oldest = since and math.min(oldest or since, since) or oldest
          break
        end
      end
      if not chain or #members < C.heads and chain_of(members[#members]) == chain then
        break
      end
      more_chains = more_chains or (call('EXISTS', K.chains) == 1 and C.chains_counted or 0)
      if more_chains == 0 then
        break
      end
      more_chains = more_chains - 1
      from = '(' .. group .. digit .. chain .. '\255'
    end
  end
  return oldest
end
