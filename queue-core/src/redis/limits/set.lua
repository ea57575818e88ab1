-- Changes a limit, if it is stored as it was read.
--
-- Inputs
--   the part of its keys that is made of its name;
--   what was read, what is to be stored, '' for nothing.
-- Output
--   SET, STALE, or MANY.
-- Errors
--   FEATURE: a feature bit that this library does not know
--   SCHEMA: another schema number
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
