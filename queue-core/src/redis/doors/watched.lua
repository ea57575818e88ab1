-- Callers that wait for the end of a job. `watched` has these jobs by the time at which the wait
-- ends. The feature bit is `w`.
--- include script/tools, script/has, script/hint

-- Notifies the callers that wait for the end of these jobs.
local function notify_ended(ids)
  if not has('w') then
    return
  end
  for from = 1, #ids, PIECE do
    local some = { unpack(ids, from, math.min(from + PIECE - 1, #ids)) }
    local watched = {}
    for at, waits in ipairs(call('ZMSCORE', K.watched, unpack(some))) do
      if waits then
        watched[#watched + 1] = some[at]
        hint_ended(some[at])
      end
    end
    call_in_pieces('ZREM', K.watched, watched)
  end
end
