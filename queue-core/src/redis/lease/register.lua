-- Registers a lane of a worker, or a producer (R1).
-- ARGV[1]  process  the name of the process
-- ARGV[2]  nonce    a number that distinguishes equal names
-- ARGV[3]  kind     'w' for a worker or 'p' for a producer
-- ARGV[4]  lease    the duration of the lease of a lane, in ms
-- ARGV[5]  knows    'w': the feature bits that the lane knows
-- ARGV[6]  record   'w': the record of the worker without the time
-- ARGV[7]  release  'w': the release of the worker, or ''
-- ARGV[8]  lost     'w': 'lost' if a lane of the process was forgotten while its lease was valid;
--                   omitted otherwise
-- Returns: the registered name, the current time, and 1 if the queue has or had a worker, or 0
-- Errors: FEATURE, SCHEMA
--- include script/prelude, script/clock, script/bits, script/recount_bits

if not head[1] then
  head[1] = C.schema
  call('HSET', K.meta, 'schema', C.schema)
end
local number = call('HINCRBY', K.meta, 'registrations', 1)
local name = ARGV[1] .. '.' .. ARGV[2] .. '.' .. number
if ARGV[3] == 'w' then
  call('HSET', K.lanes, name, '0')
  call('ZADD', K.leases, ms(now + ARGV[4]), name)
  call('ZADD', K.durations, ARGV[4], name)
  call('HSET', K.knows, name, ARGV[5], ARGV[1], ms(whole(call('HGET', K.knows, ARGV[1]) or '') + 1))
  -- The worker is registered since its first lane.
  if call('HEXISTS', K.workers, ARGV[1]) == 0 then
    call('HSET', K.workers, ARGV[1], ARGV[6] .. cmsgpack.pack(now))
    -- Stores when a release was first seen, and replaces the oldest one if there are too many.
    if ARGV[7] ~= '' and call('HEXISTS', K.deployed, ARGV[7]) == 0 then
      local seen = call('HGETALL', K.deployed)
      local oldest = nil
      for at = 1, #seen >= 2 * C.releases_seen and #seen or 0, 2 do
        oldest = (not oldest or whole(seen[at + 1]) < whole(seen[oldest + 1])) and at or oldest
      end
      if oldest then
        call('HDEL', K.deployed, seen[oldest])
      end
      call('HSET', K.deployed, ARGV[7], ms(now))
    end
  end
  if ARGV[8] then
    call('HSET', K.counters, 'lost_at', ms(now))
  end
else
  call('HSET', K.producers, name, '0')
  call('ZADD', K.seen, ms(now), name)
end
recount_bits()
-- If a job was ever claimed from a queue, the queue had a worker.
return { name, now, (head[4] or call('EXISTS', K.lanes) == 1) and 1 or 0 }
