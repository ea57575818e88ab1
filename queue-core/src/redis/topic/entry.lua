-- Decodes an entry of a log, and makes the id of the job that a subscription creates for it.

-- A number in `width` bytes, the high byte first.
local function bytes_of(number, width)
  local text = ''
  for _ = 1, width do
    text, number = string.char(number % 256) .. text, math.floor(number / 256)
  end
  return text
end

-- Times in the format of envelopes and ids. They are cached, because many entries of a call have
-- the same millisecond.
local times = {}

local function time_of(at)
  local text = times[at] or bytes_of(at, 6)
  times[at] = text
  return text
end

-- An id in the form of a UUIDv7 that is unique in the log, the time of the entry, and whether both
-- fit into such an id.
local function job_id_of_entry(entry)
  local at, seq = string.match(entry, '^(%d+)%-(%d+)$')
  at, seq = tonumber(at), tonumber(seq)
  if at < 2 ^ 48 and seq < FOREVER then
    return time_of(at) .. '\112\0\128' .. bytes_of(seq, 7), at, true
  end
  -- Its dead letter needs an id too, which is made from a digest.
  local digest = string.gsub(string.sub(redis.sha1hex(entry), 1, 14), '%x%x', function(hex)
    return string.char(tonumber(hex, 16))
  end)
  at = math.min(at, 2 ^ 48 - 1)
  return time_of(at) .. '\112\1\128' .. digest, at, false
end

-- The id of the job, the time, the fields, their size in bytes, and whether the entry fits into an
-- id.
local function read_entry(entry)
  local fields, size = {}, 0
  for at = 1, #entry[2], 2 do
    fields[entry[2][at]] = entry[2][at + 1]
    size = size + #entry[2][at + 1]
  end
  if fields.id and is_id(fields.id) then
    return fields.id, math.min(tonumber(string.match(entry[1], '^%d+')), 2 ^ 48 - 1), fields, size, true
  end
  local id, at, fits = job_id_of_entry(entry[1])
  return id, at, fields, size, fits
end
