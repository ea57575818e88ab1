-- The answer of a turn: the claimed jobs and the state of the queue that the lane needs.
local function write_answer(claim, described, waits, stale_text)
  local at = due
  if paused then
    at = has('e') and whole(call('ZSCORE', K.resumes, 'q') or FOREVER) or FOREVER
  end
  local next_due = at < FOREVER and ms(whole(at * 1000 - micros)) or ''
  local parked = has('a') and call('EXISTS', K.parked) or 0
  local values = {
    ids, described[1], claim, ms(micros), waits, next_due, call('ZCARD', K.leases), bits or false, described[2], described[3], described[4], stale_text, parked, paused and 1 or 0,
  }
  if #resumed + #aside > 0 then
    values[15], values[16] = resumed, aside
  end
  return values
end
