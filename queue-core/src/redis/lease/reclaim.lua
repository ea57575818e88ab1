-- Reclaims the jobs of forgotten lanes (R7, sweep).
-- ARGV[1]       crashes  the number of crashes that buries a job
-- ARGV[2]       window   the time from the first crash after which crashes are counted from zero,
--                        in ms
-- ARGV[3]       delay    the delay of the retry, in ms, multiplied by the number of crashes
-- ARGV[4]       n        the number of tasks with their own number of crashes
-- ARGV[5..]     tasks    n pairs of a task and its number of crashes
-- ARGV[5+2n..]  jobs     triples of an id, its receipt, and one of:
--     '+RAN': the job is charged a crash, after a run of at most RAN ms;
--     '0': the job is not charged;
--     'f': the job is not charged, because its process is alive and only its lane was forgotten.
--     A job of a lane that has left is never charged.
-- Returns: the number of jobs that were not charged, the number of retries, and the buried ids
-- Errors: FEATURE, SCHEMA
-- Events: hint, hint_tick, hint_ended, transitions
--- include script/prelude, script/clock, script/bits, doors/settle, doors/end, doors/return_jobs

local returned, charged, buried, forgotten, freed, retried, stopped = {}, {}, {}, 0, 0, 0, 0
local window, delay, most_of, first_job = tonumber(ARGV[2]), tonumber(ARGV[3]), {}, 5 + 2 * ARGV[4]
for i = 5, first_job - 1, 2 do
  most_of[ARGV[i]] = tonumber(ARGV[i + 1])
end

-- The number of crashes that buries a job.
local function crash_limit(id)
  local body = first_job > 5 and call('HGET', K.jobs, id) or ''
  return #body > 1 and most_of[string.sub(body, 3, 2 + byte(body, 2))] or tonumber(ARGV[1])
end

for i = first_job, #ARGV, 3 do
  local id, receipt = ARGV[i], ARGV[i + 1]
  if call('HGET', K.active, id) == receipt and call('HEXISTS', K.lanes, lane_of(receipt) or '') == 0 then
    settle({ id })
    local leaves = redis.pcall('SISMEMBER', K.leaving, lane_of(receipt) or '') == 1
    if is_stopped(id) then
      end_without_run(id, 'cancelled', C.stopped)
      stopped = stopped + 1
    elseif byte(ARGV[i + 2]) ~= 43 or leaves then
      freed = freed + 1
      if leaves then
        count_return(id)
      end
      if not cancel_if_superseded(id) then
        table.insert(returned, id)
      end
      forgotten = forgotten + (ARGV[i + 2] == 'f' and 1 or 0)
    else
      local stored = call('HGET', K.crashes, id) or ''
      local crashes, first, ran = string.match(stored, '^(%d+):(%d+):?(%d*)$')
      crashes, first, ran = tonumber(crashes or '0'), tonumber(first or '0'), whole(ran or '')
      if crashes == 0 or now - first > window then
        crashes, first, ran = 0, now, 0
      end
      ran = math.max(ran, whole(string.sub(ARGV[i + 2], 2)))
      crashes = crashes + 1
      put_rare('c', K.crashes, id, ms(crashes) .. ':' .. ms(first) .. ':' .. ms(ran))
      add_failure(id, 'the process that ran it died, or lost the broker')
      if crashes >= crash_limit(id) then
        end_dead(id, 'crashed')
        table.insert(buried, id)
      else
        retried = retried + 1
        if not cancel_if_superseded(id) then
          table.insert(charged, ms(time_after_delay(delay * crashes)))
          table.insert(charged, id)
        end
      end
    end
  end
end
-- In reverse order, because each job is pushed to the head of the list.
local backwards = {}
for i = #returned, 1, -1 do
  table.insert(backwards, returned[i])
end
return_to_ready(backwards, true)
store_waiting(K.retry, charged)
if #returned > 0 or opened then
  hint()
end
count('reclaimed', freed + retried + #buried + stopped)
count('crashed', retried + #buried)
count('forgotten', forgotten)
return { freed, retried, buried }
