-- R7, look one. ARGV: limit. Answers: names and deadlines, and how many are fenced.
local suspects = call('ZRANGEBYSCORE', K.leases, '-inf', ms(now), 'WITHSCORES', 'LIMIT', 0, ARGV[1])
for i = 2, #suspects, 2 do
  suspects[i] = ms(whole(suspects[i]))
end
return { suspects, call('SCARD', K.fenced) }
