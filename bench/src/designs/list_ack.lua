-- Forget a message that was handled.
-- KEYS[1] backup (ZSET)  KEYS[2] context (HASH)
-- ARGV[1] id
redis.call('ZREM', KEYS[1], ARGV[1])
redis.call('HDEL', KEYS[2], ARGV[1])
