-- Answers: the lanes whose leases stand, so that their processes live.
--- include script/prelude, script/clock

return call('ZRANGEBYSCORE', K.leases, '(' .. ms(now), '+inf')
