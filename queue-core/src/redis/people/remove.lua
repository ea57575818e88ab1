-- Removing jobs that are not active.
--- include doors/end, doors/ready

-- False: there is none of this id, or it is active.
local function remove(id)
  if call('HEXISTS', K.jobs, id) == 0 or call('HEXISTS', K.active, id) == 1 then
    return false
  end
  local record = call('HGET', K.records, id)
  if record then
    forget_record(id, record)
  elseif call('ZSCORE', K.dead, id) then
    exhume(id)
  else
    unwait(id)
  end
  end_gone({ id })
  free_id(id)
  return true
end
