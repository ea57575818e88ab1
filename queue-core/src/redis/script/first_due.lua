-- The time of the next event: a job is due, a limit admits a job again, or a pause ends. FOREVER if
-- there is none.
local function first_due()
  local first = FOREVER
  for _, key in ipairs({ K.scheduled, K.retry, K.wake, has('e') and K.resumes or nil }) do
    local head = call('ZRANGE', key, '0', '0', 'WITHSCORES')
    first = math.min(first, head[2] and whole(head[2]) or FOREVER)
  end
  return first
end

-- Recomputes the time of the next event, and stores it if it has changed.
local function update_due()
  local next_due = first_due()
  if due ~= next_due then
    due = next_due
    call('HSET', K.meta, 'due', ms(due))
  end
end
