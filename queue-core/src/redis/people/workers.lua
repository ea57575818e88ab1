-- The leases of lanes, for the list of workers.
--
-- Inputs
--   lanes.
-- Output
--   now;
--   of each lane its deadline and its term, or two false where it has none.
--- include script/prelude, script/clock

local answer = { now }
for _, lane in ipairs(ARGV) do
  local deadline, term = call('ZSCORE', K.leases, lane), call('ZSCORE', K.terms, lane)
  answer[#answer + 1] = deadline and ms(whole(deadline))
  answer[#answer + 1] = deadline and ms(whole(term or ''))
end
return answer
