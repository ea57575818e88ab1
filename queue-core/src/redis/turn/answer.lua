-- What a lane wants to know besides the jobs that it gets.
local function answer(claim, told, waits, stale_text)
  local at = due
  --- with all
  if paused then
    at = has('e') and whole(call('ZSCORE', K.resumes, 'q') or FOREVER) or FOREVER
  end
  --- end
  local next_due = at < FOREVER and ms(whole(at * 1000 - micros)) or ''
  local values = { ids, told[1], claim, ms(micros), waits, next_due, call('ZCARD', K.leases), bits or false }
  --- with failed
  values[9] = told[2]
  --- end
  --- with all
  values[10], values[11], values[12] = told[3], told[4], stale_text
  values[13] = has('a') and call('EXISTS', K.parked) or 0
  values[14] = paused and 1 or 0
  if #resumed + #aside > 0 then
    values[15], values[16] = resumed, aside
  end
  --- end
  return values
end
