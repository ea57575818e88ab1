-- Take a message, and give one back first whose time is over. Returns the message, or nil. KEYS[1]
-- queue (LIST) KEYS[2] backup (ZSET: id, ms of its pop) KEYS[3] context (HASH: id, message) ARGV[1]
-- now_ms, by the caller's clock ARGV[2] timeout_ms
local late = redis.call('ZRANGEBYSCORE', KEYS[2], '-inf', ARGV[1] - ARGV[2], 'LIMIT', 0, 1)[1]
if late then
  redis.call('ZREM', KEYS[2], late)
  redis.call('LPUSH', KEYS[1], redis.call('HGET', KEYS[3], late) or '')
end
local message = redis.call('RPOP', KEYS[1])
if not message or message == '' then
  return nil
end
local id = cjson.decode(message).id
redis.call('ZADD', KEYS[2], ARGV[1], id)
redis.call('HSET', KEYS[3], id, message)
return message
