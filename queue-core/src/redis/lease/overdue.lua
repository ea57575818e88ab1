-- Finds lanes whose leases have expired (R7, first check).
-- ARGV[1]  limit    the most lanes of a kind
-- ARGV[2]  skipped  the number of lanes to skip
-- Returns:
--     names and deadlines of the lanes whose leases have expired;
--     the number of fenced lanes;
--     names, deadlines and durations of the lanes whose deadline is further ahead than the
--       duration
--- include script/prelude, script/clock, lease/duration

local expired = call('ZRANGEBYSCORE', K.leases, '-inf', ms(now), 'WITHSCORES', 'LIMIT', ARGV[2], ARGV[1])
for i = 2, #expired, 2 do
  expired[i] = ms(whole(expired[i]))
end
-- While the clock is right and all leases have the same duration, no deadline is further ahead than
-- the shortest duration. The farthest deadlines are read first. For this reason lanes with longer
-- leases do not hide a lane whose deadline exceeds the longest duration. Any other lane is listed
-- when its lease expires.
local ahead, shortest = {}, call('ZRANGE', K.durations, 0, 0, 'WITHSCORES')[2]
if shortest then
  local from, to = '(' .. ms(FOREVER), '(' .. ms(now + whole(shortest))
  local far = call('ZRANGE', K.leases, from, to, 'BYSCORE', 'REV', 'LIMIT', ARGV[2], ARGV[1], 'WITHSCORES')
  for i = 1, #far, 2 do
    local duration = is_deadline_too_late(far[i], far[i + 1])
    if duration then
      ahead[#ahead + 1], ahead[#ahead + 2], ahead[#ahead + 3] = far[i], ms(whole(far[i + 1])), ms(duration)
    end
  end
end
return { expired, call('HLEN', K.fenced), ahead }
