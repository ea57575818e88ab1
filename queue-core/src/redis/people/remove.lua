-- Removes jobs that are not active.
--- include doors/end, doors/ready, people/update_due_and_hint

-- False: there is no job with this id, or it is active.
local function remove_job(id)
  if call('HEXISTS', K.jobs, id) == 0 or call('HEXISTS', K.active, id) == 1 then
    return false
  end
  local record = call('HGET', K.records, id)
  if record then
    delete_record(id, record)
  elseif call('ZSCORE', K.dead, id) then
    remove_dead(id)
  else
    remove_waiting(id)
  end
  end_deleted({ id })
  free_id(id)
  return true
end

-- Returns for each id: 0 not removed, 1 removed.
local function remove_jobs(ids)
  local answers = {}
  for at, id in ipairs(ids) do
    answers[at] = remove_job(id) and 1 or 0
  end
  update_due_and_hint()
  return answers
end
