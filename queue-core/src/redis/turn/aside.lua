-- Parks claimed jobs of paused tasks instead of returning them to the lane, as if a worker that
-- does not know the task had ended them with park.
if paused_tasks and #ids > 0 then
  local n, stay = #ids, 0
  for at, body in ipairs(call('HMGET', K.jobs, unpack(ids))) do
    local id, task = ids[at], body and #body > 1 and string.sub(body, 3, 2 + byte(body, 2))
    if task and paused_tasks[task] then
      -- A job that was in the list twice is parked once.
      if aside[id] then
        doubled = doubled + 1
      else
        parked[#parked + 1], aside[id] = id, task
      end
    else
      stay = stay + 1
      ids[stay] = id
    end
  end
  for at = stay + 1, n do
    ids[at] = nil
  end
  if #parked > 0 then
    if has('o') then
      stop_aging(parked)
    end
    settle(parked)
    -- The lane does not get these jobs.
    record_left(parked, 'ready')
    for _, id in ipairs(parked) do
      if has('m') then
        limits().refund(id)
      end
      park_job(id, aside[id])
      aside[#aside + 1] = id
    end
    if stay == 0 then
      bytes, full = 0, false
    elseif may_suspect and has('c') then
      for _, crashes in ipairs(call('HMGET', K.crashes, unpack(ids))) do
        may_suspect = may_suspect and not crashes
      end
    end
    served_all = false
    waits = waiting_work(false)
  end
end
