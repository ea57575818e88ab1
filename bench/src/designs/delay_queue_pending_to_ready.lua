-- Make ready what is due: all of it.
-- KEYS[1] pending (ZSET: id, ms)  KEYS[2] ready (LIST)
-- ARGV[1] now_ms
local due = redis.call('ZRANGEBYSCORE', KEYS[1], 0, ARGV[1])
for first = 1, #due, 100 do
  redis.call('LPUSH', KEYS[2], unpack(due, first, math.min(first + 99, #due)))
end
redis.call('ZREMRANGEBYSCORE', KEYS[1], 0, ARGV[1])
