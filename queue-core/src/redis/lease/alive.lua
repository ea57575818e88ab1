-- Lists the lanes whose leases have not expired: their processes are alive.
-- Returns: the names of the lanes
--- include script/prelude, script/clock

return call('ZRANGEBYSCORE', K.leases, '(' .. ms(now), '+inf')
