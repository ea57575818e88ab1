-- R7, second check. ARGV: pairs of a lane and the deadline that was seen. From here on every request of it is `Forgotten`.
--- include script/prelude, script/clock, script/schema, lease/terms

local answers = {}
for i = 1, #ARGV, 2 do
  local deadline = call('ZSCORE', K.leases, ARGV[i])
  if deadline and whole(deadline) == tonumber(ARGV[i + 1]) and (whole(deadline) <= now or is_ahead(ARGV[i], deadline)) then
    call('HDEL', K.lanes, ARGV[i])
    call('ZREM', K.leases, ARGV[i])
    call('ZREM', K.terms, ARGV[i])
    call('HDEL', K.gone, ARGV[i])
    call('HDEL', K.knows, ARGV[i])
    call('SADD', K.fenced, ARGV[i])
    table.insert(answers, 1)
  else
    table.insert(answers, 0)
  end
end
return answers
