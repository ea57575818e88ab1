-- How long ago a job could start.
--- include doors/groups

-- The options of an envelope: its map without the payload, which comes first. The server's decoder knows no binary values.
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

-- Since when a job of a list, or of the line of a group, could start. Nothing if that is not known: it is gone, it waited for another time meanwhile, or its task repeats.
local function since_of(id, list)
  local envelope = call('HGET', K.jobs, id)
  if
    not envelope or #envelope < 9 or byte(envelope) ~= 1 or (list and call('HGET', K.tomb, id .. list)) or call('HGET', K.attempts, id)
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

-- Since when the oldest ready job of a group could start: the first ones of each priority are looked at.
local function oldest_of(group)
  local oldest = nil
  for digit = 0, 3 do
    for _, member in ipairs(call('ZRANGEBYLEX', K.line, '[' .. group .. digit, '(' .. group .. digit + 1, 'LIMIT', 0, C.heads)) do
      local _, id = parts_of(member)
      local since = since_of(id)
      if since then
        oldest = math.min(oldest or since, since)
        break
      end
    end
  end
  return oldest
end
