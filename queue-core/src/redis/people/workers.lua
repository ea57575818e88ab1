-- The leases of lanes, for the list of workers.
--
-- Inputs
--   lanes.
-- Output
--   now;
--   of each lane its deadline and its duration, or two false where it has none.
--- include script/prelude, script/clock

local answer = { now }
for _, lane in ipairs(ARGV) do
  local deadline, duration = call('ZSCORE', K.leases, lane), call('ZSCORE', K.durations, lane)
  answer[#answer + 1] = deadline and ms(whole(deadline))
  answer[#answer + 1] = deadline and ms(whole(duration or ''))
end
return answer
