-- Moves scheduled jobs and retries to the tail of the ready jobs before they are due.
--- include doors/return_jobs, people/update_due_and_hint

-- Returns for each id: 0 not changed, 1 changed.
local function promote_jobs(ids)
  local answers, early = {}, {}
  for at, id in ipairs(ids) do
    answers[at] = 0
    if call('ZSCORE', K.scheduled, id) or call('ZSCORE', K.retry, id) then
      remove_waiting(id)
      early[#early + 1] = id
      answers[at] = 1
    end
  end
  if return_to_ready(early, false) then
    opened = true
  end
  update_due_and_hint()
  return answers
end
