-- Decides anew which groups may be served: the rule of all has changed.
--
-- Inputs
--   behind which place of `line` to begin, or '';
--   how many groups.
-- Output
--   the place behind which to go on, or nothing.
-- Errors
--   FEATURE: a feature bit that this library does not know
--   SCHEMA: another schema number
-- Events
--   a hint: jobs are ready or due
--- include script/prelude, script/clock, script/bits, doors/groups

local from = ARGV[1] == '' and '-' or '(' .. ARGV[1]
for _ = 1, ARGV[2] do
  local member = call('ZRANGEBYLEX', K.line, from, '+', 'LIMIT', 0, 1)[1]
  if not member then
    from = nil
    break
  end
  local group, _, is_suspect = parts_of(member)
  review(group)
  from = '(' .. (is_suspect and '\255' or '') .. group .. '\255'
end
if opened then
  hint()
end
return from and string.sub(from, 2)
