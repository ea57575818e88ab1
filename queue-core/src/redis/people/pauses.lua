-- Reads the pauses of the queue and of its tasks.
-- Returns: the current time, and of each pause: 'q', or 't' and the task; its text; and the parked
--   jobs of the task
-- Errors: SCHEMA
--- include script/prelude, script/schema, script/clock

local answer, is_paused = { now }, call('HGET', K.meta, 'paused') == '1'
if is_paused then
  answer = { now, 'q', call('HGET', K.pauses, 'q') or '', 0 }
end
local all = call('HGETALL', K.pauses)
for at = 1, #all, 2 do
  local of = all[at]
  if byte(of) == 116 then -- 't'
    local task = string.sub(of, 2)
    local parked = call('ZLEXCOUNT', K.parked, '[' .. task .. '\0', '(' .. task .. '\2')
    answer[#answer + 1], answer[#answer + 2], answer[#answer + 3] = of, all[at + 1], parked
  end
end
return answer
