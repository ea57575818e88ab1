-- Opens the keys that may have room after a limit was changed.
-- ARGV[1]  name   the first bytes of its keys, which are derived from its name
-- ARGV[2]  from   the key to begin after, or ''
-- ARGV[3]  limit  the most keys
-- Returns: the key to continue after, or nothing
-- Errors: FEATURE, SCHEMA
-- Events: hint
--- include script/prelude, script/clock, script/bits, doors/groups

local from = ARGV[2] == '' and '[' .. ARGV[1] or '(' .. ARGV[2] .. '\255'
for _ = 1, ARGV[3] do
  local member = call('ZRANGEBYLEX', K.shut, from, '(' .. ARGV[1] .. C.last_key, 'LIMIT', 0, 1)[1]
  if not member then
    from = nil
    break
  end
  local key = string.sub(member, 1, 16)
  limits().recheck_keys({ key })
  from = '(' .. key .. '\255'
end
if opened then
  hint()
end
return from and string.sub(from, 2, 17)
