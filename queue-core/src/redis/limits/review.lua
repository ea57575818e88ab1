-- A limit was changed: the keys under which chains are shut may have room.
--
-- Inputs
--   the part of them that is made of its name;
--   behind which key to begin, or '';
--   how many keys.
-- Output
--   the key behind which to go on, or nothing.
-- Errors
--   FEATURE: a feature bit that this library does not know
--   SCHEMA: another schema number
-- Events
--   a hint: jobs are ready or due
--- include script/prelude, script/clock, script/bits, doors/groups

local from = ARGV[2] == '' and '[' .. ARGV[1] or '(' .. ARGV[2] .. '\255'
for _ = 1, ARGV[3] do
  local member = call('ZRANGEBYLEX', K.shut, from, '(' .. ARGV[1] .. C.last_key, 'LIMIT', 0, 1)[1]
  if not member then
    from = nil
    break
  end
  local key = string.sub(member, 1, 16)
  limits().loosen({ key })
  from = '(' .. key .. '\255'
end
if opened then
  hint()
end
return from and string.sub(from, 2, 17)
