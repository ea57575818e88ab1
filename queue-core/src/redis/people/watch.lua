-- Reads all that is stored of a job, and marks a job that has not ended as watched.
-- ARGV[1]  id  the id of the job
-- Returns: the answer of `shown`
-- Errors: FEATURE, SCHEMA
-- Events: hint_watch
--- include script/prelude, script/clock, script/bits, script/guard, script/tools, people/shown, script/hint

local id = ARGV[1]
local job = read_job(id)

-- Whether another job may be watched. Expired marks are removed first.
local function may_add_watch()
  if call('ZCARD', K.watched) < C.most_watched then
    return true
  end
  local over = call('ZRANGEBYSCORE', K.watched, '-inf', ms(now), 'LIMIT', 0, 100)
  call_in_pieces('ZREM', K.watched, over)
  return #over > 0
end

-- If a worker does not know the mark, the caller has to poll.
if job and job[1] ~= 'dead' and call('HEXISTS', K.records, id) == 0 and not unknown_to_a_lane('w') and may_add_watch() then
  set_bit('w')
  call('ZADD', K.watched, ms(now + C.watched_ms), id)
  -- At most once per second, however many callers wait.
  local hinted = whole(call('HGET', K.meta, 'hinted'))
  if hinted > now or hinted + 1000 <= now then
    call('HSET', K.meta, 'hinted', ms(now))
    hint_lanes()
  end
end
return job
