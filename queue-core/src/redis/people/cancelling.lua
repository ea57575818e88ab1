-- Cancels jobs in any state that is not final.
--- include doors/settle, doors/end, doors/ready, people/update_due_and_hint

-- Cancels a waiting job. False: the job has ended or does not exist.
local function cancel_waiting(id, reason)
  if call('HEXISTS', K.jobs, id) == 0 or call('HEXISTS', K.records, id) == 1 or call('ZSCORE', K.dead, id) then
    return false
  end
  remove_waiting(id)
  end_without_run(id, 'cancelled', reason)
  return true
end

-- Returns for each id: 0 not found, 1 cancelled, 2 cancelled while active.
local function cancel_jobs(ids, reason)
  -- The cancelled deliveries of each lane, packed once.
  local answers, notes = {}, {}
  local function record_cancellation(receipt, id)
    local lane = lane_of(receipt)
    if lane and call('HEXISTS', K.lanes, lane) == 1 then
      local gone = notes[lane] or unpacked_pairs(call('HGET', K.gone, lane))
      if #gone < 500 then
        table.insert(gone, { id, string.match(receipt, '(%d+)$') })
        notes[lane] = gone
      end
    end
  end
  for at, id in ipairs(ids) do
    local receipt = call('HGET', K.active, id)
    if receipt then
      settle({ id })
      record_cancellation(receipt, id)
      end_without_run(id, 'cancelled', reason)
      answers[at] = 2
    else
      answers[at] = cancel_waiting(id, reason) and 1 or 0
    end
  end
  update_due_and_hint()
  for lane, gone in pairs(notes) do
    call('HSET', K.gone, lane, cmsgpack.pack(gone))
  end
  if next(notes) then
    -- The workers send a heartbeat at once, which returns the cancelled jobs.
    hint_lanes()
  end
  return answers
end
