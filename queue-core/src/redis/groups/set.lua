-- Sets a rule, if it is the one that was read.
--
-- Inputs
--   its name;
--   the rule that was read, and the one that is to hold, '' for none;
--   the group that it is about, or ''.
-- Output
--   SET, STALE, or MANY. What is said of a pause stands behind it, and is kept while it pauses. Of
--   what code declares ('+') all that is stored is compared.
-- Errors
--   FEATURE: a feature bit that this library does not know
--   SCHEMA: another schema number
-- Events
--   a hint: jobs are ready or due
--- include script/prelude, script/clock, script/bits, doors/pauses

local stored, wanted = call('HGET', K.rules, ARGV[1]) or '', ARGV[3]
local rule, why = stored, ''
if ARGV[1] ~= '+' then
  rule, why = string.match(stored, '^([^p]*p?)(.*)$')
  if string.sub(wanted, -1) == 'p' then
    wanted = wanted .. why
  end
end
if stored == wanted then
  return 'SET'
elseif rule ~= ARGV[2] then
  return 'STALE'
elseif wanted ~= '' and stored == '' and call('HLEN', K.rules) >= C.group_rules then
  return 'MANY'
end
if ARGV[4] ~= '' then
  set_rule(ARGV[4], wanted)
elseif wanted == '' then
  call('HDEL', K.rules, ARGV[1])
else
  put_all(K.rules, { ARGV[1], wanted })
end
if not head[1] then
  call('HSET', K.meta, 'schema', C.schema)
end
if ARGV[4] ~= '' then
  if string.sub(ARGV[3], -1) ~= 'p' then
    forget_end('g' .. ARGV[4])
  end
  if opened then
    hint()
  end
end
return 'SET'
