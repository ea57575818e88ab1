-- R1. ARGV: process, nonce, kind ('w' or 'p'), lease.
call('HSET', K.meta, 'schema', SCHEMA)
local number = call('HINCRBY', K.meta, 'registrations', 1)
local name = ARGV[1] .. '.' .. ARGV[2] .. '.' .. number
if ARGV[3] == 'w' then
  call('HSET', K.workers, name, '0')
  call('ZADD', K.leases, ms(now + ARGV[4]), name)
else
  call('HSET', K.producers, name, '0:' .. ms(now))
  call('ZADD', K.seen, ms(now), name)
end
return name
