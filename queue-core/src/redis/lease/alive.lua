-- Answers: the lanes whose leases stand, so that their processes live.
return call('ZRANGEBYSCORE', K.leases, '(' .. ms(now), '+inf')
