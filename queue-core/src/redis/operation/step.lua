-- Runs one step of an operation: changes jobs, and stores the progress of the operation. See
-- `broker/operation/mod.rs`.
-- ARGV[1]     id        the id of the operation
-- ARGV[2]     runner    the runner
-- ARGV[3]     step      the number of the previous step
-- ARGV[4]     position  the position after the step, or '-'
-- ARGV[5]     examined  the number of examined jobs
-- ARGV[6]     skipped   the number of skipped jobs among them
-- ARGV[7]     ends      the state in which the operation has ended, or ''
-- ARGV[8]     problem   why it has failed
-- ARGV[9]     verb      'pop', or the verb of a change
-- ARGV[10]    why       the reason of a cancellation, or ''
-- ARGV[11]    states    the states in which jobs are changed, separated by commas
-- ARGV[12..]  jobs      ids; for a requeue triples, see `people/requeueing.lua`
-- Returns: 'NONE'; or 'DONE' or 'OTHER' with the id, the stored operation, and 1 if there may be
--   more jobs to pop
-- Errors: FEATURE, SCHEMA
-- Events: hint, hint_tick, hint_ended, hint_watch, transitions
--- include script/prelude, script/clock, script/bits, operation/stored, operation/pop, people/shown, people/cancelling, people/promoting, people/requeueing, people/remove
return (function()

local id, runner, step, position, examined, skipped, ends, problem, verb, why, states = unpack(ARGV, 1, 11)
local of = operation_of(id)
if not of then
  return { 'NONE' }
elseif of.runner == runner and of.step == add_to_text(step, 1) then
  -- The request was sent again.
  return { 'DONE', id, of.stored, verb == 'pop' and 1 or 0 }
elseif of.state ~= 'running' or of.runner ~= runner or of.step ~= step then
  return { 'OTHER', id, of.stored }
end

local answers, ids, changed, passed, failed, more = {}, {}, 0, 0, 0, false
-- A job may have changed since it was examined, and another one may have its id.
local width = verb == 'requeue' and 3 or 1
for at = 12, #ARGV, width do
  local job = read_job(ARGV[at])
  if job and string.find(',' .. states .. ',', ',' .. job[1] .. ',', 1, true) and enqueued_at(job[2]) <= whole(of.started) then
    for place = at, at + width - 1 do
      ids[#ids + 1] = ARGV[place]
    end
  else
    passed = passed + 1
  end
end
if verb == 'pop' then
  changed, more = remove_oldest_jobs(whole(of.started))
elseif verb == 'cancel' then
  answers = cancel_jobs(ids, why ~= '' and why or nil)
elseif verb == 'promote' then
  answers = promote_jobs(ids)
elseif verb == 'requeue' then
  answers = requeue_jobs(ids)
elseif verb == 'delete' then
  answers = remove_jobs(ids)
end
for _, answer in ipairs(answers) do
  if type(answer) == 'string' then
    failed = failed + 1
  elseif answer == 0 or answer == 3 then
    passed = passed + 1
  else
    changed = changed + 1
  end
end
of.step, of.stepped, of.position, of.problem = add_to_text(step, 1), ms(now), position, problem
of.examined, of.changed = add_to_text(of.examined, whole(examined) + (verb == 'pop' and changed or 0)), add_to_text(of.changed, changed)
of.skipped, of.failed = add_to_text(of.skipped, whole(skipped) + passed), add_to_text(of.failed, failed)
if ends ~= '' then
  of.state, of.ended = ends, ms(now)
end
put_operation(id, of)
return { 'DONE', id, of.stored, more and 1 or 0 }
end)()
