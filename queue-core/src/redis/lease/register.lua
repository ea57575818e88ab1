-- R1. ARGV: process, nonce, kind ('w' or 'p'), lease.
call('HSET', K.meta, 'schema', SCHEMA)
local number = call('HINCRBY', K.meta, 'registrations', 1)
local name = ARGV[1] .. '.' .. ARGV[2] .. '.' .. number
if ARGV[3] == 'w' then
  call('HSET', K.workers, name, '0')
  call('ZADD', K.leases, ms(now + ARGV[4]), name)
  call('ZADD', K.terms, ARGV[4], name)
  -- What waits is left to the next turn, which looks when the first of that is due.
  local rare = call(
    'EXISTS', K.scheduled, K.retry, K.snoozes, K.crashes, K.priority, K.tomb, K.ready0, K.ready1, K.ready3, K.suspect, K.parked
  )
  local is_plain = rare == 0 and call('HGET', K.meta, 'paused') ~= '1'
  note_plain(is_plain and FOREVER or nil, call('EXISTS', K.attempts, K.errors) > 0)
else
  call('HSET', K.producers, name, '0')
  call('ZADD', K.seen, ms(now), name)
end
return name
