-- Stores jobs (R12) with generated ids and normal priority, ready now and without rare features.
-- `enqueue.lua` serves all others.
-- ARGV[1]    producer  the name of the producer
-- ARGV[2]    seq       the number of the enqueue
-- ARGV[3]    needs     the feature bits that the jobs need
-- ARGV[4..]  jobs      pairs of id and envelope
-- Returns: that of `enqueue.lua`; or 0 if `enqueue.lua` is needed, and then nothing is written. It
--   is needed if:
--     the queue lacks a bit that the jobs need,
--     its jobs rise, or
--     a watcher follows it.
-- Errors: FORGOTTEN, OLD
-- Events: hint
--- include script/prelude
local head = call('HMGET', K.meta, 'schema', 'bits')
local bits = head[2]
if not bits or string.find(bits, C.not_plain_enqueue) or ARGV[3] ~= '' and not string.find(bits, ARGV[3], 1, true) or head[1] and head[1] ~= C.schema then
  return 0
end
--- include enqueue/sequence
if #ARGV > 3 then
  call('HSET', K.jobs, ARGV[4], LONG, unpack(ARGV, 4))
  local ids = {}
  for at = 4, #ARGV, 2 do
    ids[#ids + 1] = ARGV[at]
  end
  local n = call('RPUSH', K.ready2, unpack(ids))
  count('enqueued', #ids)
  if n == #ids then
    -- The list was empty. The time is read only in this case.
    --- include script/hint
    hint()
  end
end
call('HSET', K.producers, ARGV[1], ARGV[2])
return false
