-- Trim as many entries as there were at the last visit.
-- KEYS[1] stream  KEYS[2] cleaned (HASH: stream, its length after the last visit)
local length = redis.call('XLEN', KEYS[1])
local before = tonumber(redis.call('HGET', KEYS[2], KEYS[1]) or 0)
if before > 0 then
  redis.call('XTRIM', KEYS[1], 'MAXLEN', math.max(length - before, 0))
end
redis.call('HSET', KEYS[2], KEYS[1], redis.call('XLEN', KEYS[1]))
