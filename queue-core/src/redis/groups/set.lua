-- Sets a rule, if it is the one that was read. ARGV: its name; the rule that was read, and the one that is to hold, '' for none; the group that it is
-- about, or ''. Answers: SET, STALE, or MANY.
--- include script/prelude, script/clock, script/bits, doors/groups

local stored = call('HGET', K.rules, ARGV[1]) or ''
if stored == ARGV[3] then
  return 'SET'
elseif stored ~= ARGV[2] then
  return 'STALE'
elseif ARGV[3] == '' then
  call('HDEL', K.rules, ARGV[1])
elseif stored == '' and call('HLEN', K.rules) >= C.group_rules then
  return 'MANY'
else
  put_all(K.rules, { ARGV[1], ARGV[3] })
end
if not head[1] then
  call('HSET', K.meta, 'schema', C.schema)
end
if ARGV[4] ~= '' then
  review(ARGV[4])
  if opened then
    hint()
  end
end
return 'SET'
