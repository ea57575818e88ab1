-- The number of an enqueue (R12): one that was answered before is answered with the same, and nothing of it is stored again.
-- ARGV: producer, seq, 'large' or ''.

local meta = call('HMGET', K.meta, 'schema', 'large')
if meta[1] and meta[1] ~= SCHEMA then
  return too_new(meta[1])
end
local producer, seq = ARGV[1], tonumber(ARGV[2])
local entry = call('HGET', K.producers, producer)
if not entry then
  return redis.error_reply('FORGOTTEN ' .. producer)
end
local last, seen, stored = string.match(entry, '^(%d+):(%d+):?(%d*)$')
last = tonumber(last)
if not last then
  return redis.error_reply('FORGOTTEN ' .. producer)
elseif seq < last then
  return redis.error_reply('OLD ' .. producer .. ' ' .. ARGV[2])
elseif seq == last then
  return stored ~= '' and stored or false
end

if ARGV[3] == 'large' and not meta[2] then
  call('HSET', K.meta, 'large', '1')
end

-- Remembers the number and its answers: a digit per job, or '' when everything was stored.
local function accept(answers)
  -- `seen` has the grain of an hour: idle producers are forgotten after a day.
  if now - tonumber(seen) > 3600000 then
    seen = ms(now)
    call('ZADD', K.seen, seen, producer)
  end
  call('HSET', K.producers, producer, ARGV[2] .. ':' .. seen .. (answers ~= '' and ':' .. answers or ''))
  return answers ~= '' and answers or false
end
