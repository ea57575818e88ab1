-- Cancelling jobs in any state that is not final.
--- include doors/settle, doors/end, doors/ready, script/first_due

-- Answers for each id: 0 there is none, 1 cancelled, 2 cancelled while active.
local function cancel_jobs(ids, reason)
  -- What each lane has to hear, packed once.
  local answers, notes = {}, {}
  local function tell(tag, id)
    local lane = lane_of(tag)
    if lane and call('HEXISTS', K.lanes, lane) == 1 then
      local gone = notes[lane] or unpacked_pairs(call('HGET', K.gone, lane))
      if #gone < 500 then
        table.insert(gone, { id, string.match(tag, '(%d+)$') })
        notes[lane] = gone
      end
    end
  end
  for at, id in ipairs(ids) do
    local tag = call('HGET', K.active, id)
    answers[at] = 0
    if tag then
      settle({ id })
      tell(tag, id)
      answers[at] = 2
    elseif call('HEXISTS', K.jobs, id) == 1 and call('HEXISTS', K.records, id) == 0 and not call('ZSCORE', K.dead, id) then
      unwait(id)
      answers[at] = 1
    end
    if answers[at] > 0 then
      end_unrun(id, 'cancelled', reason)
    end
  end
  look_due()
  if opened then
    hint()
  end
  for lane, gone in pairs(notes) do
    call('HSET', K.gone, lane, cmsgpack.pack(gone))
  end
  if next(notes) then
    -- The workers beat at once, and hear of it.
    hint_watch()
  end
  return answers
end
