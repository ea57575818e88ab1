-- R7, second check. ARGV: pairs of a lane and the deadline that was seen. From here on every request of it is `Forgotten`.
--- include script/prelude, script/clock, script/schema, lease/terms, lease/deregister

local answers, fenced = {}, {}
for i = 1, #ARGV, 2 do
  -- One that is named twice is fenced once.
  local deadline = not fenced[ARGV[i]] and call('ZSCORE', K.leases, ARGV[i])
  if deadline and whole(deadline) == tonumber(ARGV[i + 1]) and (whole(deadline) <= now or is_ahead(ARGV[i], deadline)) then
    call('SADD', K.fenced, ARGV[i])
    fenced[ARGV[i]], fenced[#fenced + 1] = true, ARGV[i]
    table.insert(answers, 1)
  else
    table.insert(answers, 0)
  end
end
deregister(fenced)
return answers
