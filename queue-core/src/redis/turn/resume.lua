-- Ends pauses that have expired, and reads which tasks are paused.
--- include doors/pauses

local paused_tasks = nil
if has('e') then
  resumed = call('ZRANGEBYSCORE', K.resumes, '-inf', ms(now), 'LIMIT', 0, C.resumed_at_once)
  for _, of in ipairs(resumed) do
    end_pause(of)
    paused = paused and of ~= 'q'
  end
  for _, of in ipairs(has('e') and call('HKEYS', K.pauses) or {}) do
    if byte(of) == 116 then -- 't'
      paused_tasks = paused_tasks or {}
      paused_tasks[string.sub(of, 2)] = true
    end
  end
end
