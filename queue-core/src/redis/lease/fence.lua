-- Fences lanes whose leases have expired (R7, second check). Each later request of such a lane gets
-- `Forgotten`. The record of a fenced lane has two times: the latest time at which its process may
-- have been alive, and its last renewal. If another clock wrote the lease, the second time is
-- unknown.
-- ARGV[1..]  lanes  pairs of a lane and the deadline that was seen
-- Returns: for each lane 1 if it is fenced now, or 0
-- Errors: SCHEMA
--- include script/prelude, script/clock, script/schema, lease/duration, lease/deregister

local answers, fenced = {}, {}
for i = 1, #ARGV, 2 do
  -- A lane that is listed twice is fenced once.
  local deadline = not fenced[ARGV[i]] and call('ZSCORE', K.leases, ARGV[i])
  if deadline and whole(deadline) == tonumber(ARGV[i + 1]) and (whole(deadline) <= now or is_deadline_too_late(ARGV[i], deadline)) then
    local duration = whole(call('ZSCORE', K.durations, ARGV[i]) or '')
    local renewed = duration > 0 and duration <= whole(deadline) and whole(deadline) - duration <= now and whole(deadline) - duration or 0
    call('HSET', K.fenced, ARGV[i], ms(math.min(whole(deadline), now)) .. ':' .. ms(renewed))
    fenced[ARGV[i]], fenced[#fenced + 1] = true, ARGV[i]
    table.insert(answers, 1)
  else
    table.insert(answers, 0)
  end
end
deregister(fenced)
return answers
