-- Updates which groups may be served, after the rule of all groups has changed.
-- ARGV[1]  from   the member of `line` to begin after, or ''
-- ARGV[2]  limit  the most groups
-- Returns: the member to continue after, or nothing
-- Errors: FEATURE, SCHEMA
-- Events: hint
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
