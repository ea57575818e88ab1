-- Changes a limit if what is stored is what the caller has read.
-- ARGV[1]  name    the bytes of the keys that are made of the name of the limit
-- ARGV[2]  read    what was read, '' for nothing
-- ARGV[3]  wanted  what is to be stored, '' for nothing
-- Returns: 'SET', 'STALE' or 'MANY'
-- Errors: FEATURE, SCHEMA
--- include script/prelude, script/clock, script/bits

local stored = call('HGET', K.limits, ARGV[1]) or ''
if stored == ARGV[3] then
  return 'SET'
elseif stored ~= ARGV[2] then
  return 'STALE'
elseif ARGV[3] == '' then
  call('HDEL', K.limits, ARGV[1])
elseif stored == '' and call('HLEN', K.limits) >= C.limit_rules then
  return 'MANY'
else
  put_all(K.limits, { ARGV[1], ARGV[3] })
end
if not head[1] then
  call('HSET', K.meta, 'schema', C.schema)
end
return 'SET'
