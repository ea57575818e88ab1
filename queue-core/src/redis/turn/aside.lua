-- Jobs of paused tasks are parked in place of being handed out, as if a worker that does not know them had given them back.
if paused_tasks and #ids > 0 then
  local n, stay, tasks = #ids, 0, {}
  for at, body in ipairs(call('HMGET', K.jobs, unpack(ids))) do
    local id, task = ids[at], body and #body > 1 and string.sub(body, 3, 2 + byte(body, 2))
    if task and paused_tasks[task] then
      -- One that was in the list twice is parked once.
      if tasks[id] then
        doubled = doubled + 1
      else
        aside[#aside + 1], tasks[id] = id, task
      end
    else
      stay = stay + 1
      ids[stay] = id
    end
  end
  for at = stay + 1, n do
    ids[at] = nil
  end
  if #aside > 0 then
    if has('o') then
      rest(aside)
    end
    settle(aside)
    -- They were not handed out.
    left(aside, 'ready')
    for _, id in ipairs(aside) do
      if has('m') then
        limits().refund(id)
      end
      back_parked(id, tasks[id])
    end
    served_all = false
    waits = what_waits(false)
  end
end
