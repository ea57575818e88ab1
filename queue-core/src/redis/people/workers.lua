-- Reads the leases of lanes, for the list of workers.
-- ARGV[1..]  lanes  the names of the lanes
-- Returns: the current time, and of each lane its deadline and its duration, or false twice
--- include script/prelude, script/clock

local answer = { now }
for _, lane in ipairs(ARGV) do
  local deadline, duration = call('ZSCORE', K.leases, lane), call('ZSCORE', K.durations, lane)
  answer[#answer + 1] = deadline and ms(whole(deadline))
  answer[#answer + 1] = deadline and ms(whole(duration or ''))
end
return answer
