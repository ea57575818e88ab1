-- R7, look one. ARGV: limit. Answers: names and deadlines, and how many are fenced.
return { call('ZRANGEBYSCORE', K.leases, '-inf', ms(now), 'WITHSCORES', 'LIMIT', 0, ARGV[1]), call('SCARD', K.fenced) }
