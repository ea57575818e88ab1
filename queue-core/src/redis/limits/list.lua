-- Limits. ARGV: the parts of their keys that are made of their names; none: all. Answers of each what is stored, how many slots are held, and how many chains
-- are shut.
--- include script/prelude, script/schema

local names = #ARGV > 0 and ARGV or call('HKEYS', K.limits)
local answer = {}
for _, name in ipairs(names) do
  local stored = call('HGET', K.limits, name)
  if stored and #name == 6 then
    answer[#answer + 1] = stored
    answer[#answer + 1] = call('ZLEXCOUNT', K.holders, '[\255' .. name, '(\255' .. name .. '\255')
    answer[#answer + 1] = call('ZLEXCOUNT', K.shut, '[' .. name, '(' .. name .. '\255')
  end
end
return answer
