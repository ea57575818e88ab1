-- Give back what was not acknowledged in time, or give it up when no retries are left. KEYS[1]
-- unack (ZSET: id, ms of its retry) KEYS[2] retry_count (HASH) KEYS[3] retry (LIST) KEYS[4] garbage
-- (SET) ARGV[1] now_ms
local late = redis.call('ZRANGEBYSCORE', KEYS[1], 0, ARGV[1])
for _, id in ipairs(late) do
  local left = tonumber(redis.call('HGET', KEYS[2], id) or 0)
  if left > 0 then
    redis.call('HINCRBY', KEYS[2], id, -1)
    redis.call('LPUSH', KEYS[3], id)
  else
    redis.call('HDEL', KEYS[2], id)
    redis.call('SADD', KEYS[4], id)
  end
end
redis.call('ZREMRANGEBYSCORE', KEYS[1], 0, ARGV[1])
