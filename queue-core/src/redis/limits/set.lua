-- Changes a limit if the stored form is the one that the caller has read.
-- ARGV[1]  name    the first bytes of its keys, which are derived from its name
-- ARGV[2]  read    the stored form that was read, '' for none
-- ARGV[3]  wanted  the new stored form, '' to remove the limit
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
  set_fields(K.limits, { ARGV[1], ARGV[3] })
end
if not head[1] then
  call('HSET', K.meta, 'schema', C.schema)
end
return 'SET'
