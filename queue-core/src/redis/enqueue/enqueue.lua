-- R12: stores jobs.
--
-- Inputs
--   ARGV[1] producer   its name
--   ARGV[2] seq        the number of the enqueue
--   ARGV[3] needs      the feature bits that the jobs need
--   without `all`: pairs of id and envelope, of made ids and normal priority, ready now
--   with `all`: parts to the end:
--     'r', list, n, then n pairs of id and envelope: made ids, ready now
--     's', n, then n times id, envelope, priority, delay or '', time or '': made ids, for later
--     'g', n, then n times id, envelope, priority, delay or '', time or '', digest: given ids
--     'u', n, then n jobs with keys: see `enqueue/unique`
--     'k', for how long keys are held, what becomes of a second job, n, then n pairs of id and envelope, then n keys: made ids of normal priority and
--       without a group, ready now
--     'q', n, then n times id, envelope, priority, group: made ids, ready now
--     'm', n, then n times id, envelope, priority, group, chain, cost: made ids with limits, ready now
--     'o', n, then n times id, envelope, priority, delay or '', time or '': made ids, of a relay
--     'x', n: jobs of a relay that are withheld, because a lane does not know what they need
--     'G', group: that of the jobs that follow, but for 'r', 'q' and 'm'; '' for none
--     'M', chain, cost: the same of their limits
-- Output: nothing when everything was stored, or else a digit per job, in the order of the parts, with the ids that these name; 0 where it takes the profile `all`,
--   and nothing has changed.
--- include script/prelude
--- with all
--- include script/clock, script/bits, script/guard
--- without all
local head = call('HMGET', K.meta, 'schema', 'bits')
local bits = head[2]
if not bits or string.find(bits, C.uncovered) or ARGV[3] ~= '' and not string.find(bits, ARGV[3], 1, true) or head[1] and head[1] ~= C.schema then
  return 0
end
--- end
--- include enqueue/sequence
--- include enqueue/store
--- without all
if #ARGV > 3 then
  local woken, n = store(4, #ARGV, K.ready2)
  count('enqueued', n)
  if woken then
    -- Only then the time is asked for.
    --- include script/clock, script/hint
    hint()
  end
end
call('HSET', K.producers, ARGV[1], ARGV[2])
return false
--- with all
--- include enqueue/kinds
--- end
