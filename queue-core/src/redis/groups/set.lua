-- Sets a rule if the stored rule is the one that the caller has read.
-- ARGV[1]  name    the field of the rule: a group, or the name of a rule for all groups
-- ARGV[2]  read    the rule that was read, '' for none
-- ARGV[3]  wanted  the new rule, '' for none
-- ARGV[4]  group   the group of the rule, or ''
-- Returns: 'SET', 'STALE' or 'MANY'. The text of a pause follows its rule, and is kept while the
--   group is paused. For the declarations of code ('+'), the whole stored form is compared.
-- Errors: FEATURE, SCHEMA
-- Events: hint
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
  set_fields(K.rules, { ARGV[1], wanted })
end
if not head[1] then
  call('HSET', K.meta, 'schema', C.schema)
end
if ARGV[4] ~= '' then
  if string.sub(ARGV[3], -1) ~= 'p' then
    clear_pause_end('g' .. ARGV[4])
  end
  if opened then
    hint()
  end
end
return 'SET'
