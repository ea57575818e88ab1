-- Reads limits.
-- ARGV[1..]  names  the first bytes of the limits' keys, which are derived from their names;
--                   omitted: all limits
-- Returns: for each limit: the stored form, the number of held slots, and the numbers of jobs
--   that wait for a slot and for the rate
-- Errors: FEATURE, SCHEMA
--- include script/prelude, script/clock, script/schema

-- Unknown bits: every feature is read from its keys.
local bits = nil
--- include script/has, doors/groups

local names = #ARGV > 0 and ARGV or call('HKEYS', K.limits)
local answer, left = {}, C.chains_counted

local function count_waiting(name)
  local full, rated = 0, 0
  for _, member in ipairs(left > 0 and call('ZRANGEBYLEX', K.shut, '[' .. name, '(' .. name .. C.last_key, 'LIMIT', 0, left) or {}) do
    left = left - 1
    local key = string.sub(member, 1, 16)
    local upto = limits().kept_until(key, limits().until_when(key, 1))
    local jobs = upto and limits().depth_of_shut(member) or 0
    if upto == FOREVER then
      full = full + jobs
    else
      rated = rated + jobs
    end
  end
  return full, rated
end

for _, name in ipairs(names) do
  local stored = call('HGET', K.limits, name)
  if stored and #name == 6 then
    local full, rated = count_waiting(name)
    for _, value in ipairs({ stored, call('ZLEXCOUNT', K.holders, '[\255' .. name, '(\255' .. name .. C.last_key), full, rated }) do
      answer[#answer + 1] = value
    end
  end
end
return answer
