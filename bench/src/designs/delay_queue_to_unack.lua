-- Take one message to handle it. Returns its id, or nil.
-- KEYS[1] ready or retry (LIST)  KEYS[2] unack (ZSET: id, ms of its retry)
-- ARGV[1] ms of its retry
local id = redis.call('RPOP', KEYS[1])
if not id then
  return nil
end
redis.call('ZADD', KEYS[2], ARGV[1], id)
return id
