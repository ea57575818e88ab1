-- Moves dead, cancelled or expired jobs to the ready jobs, and clears their counters.
--- include doors/end, doors/return_jobs

-- Restores the data of a cancelled or expired job from its record. False: the id has no such
-- record. An id: that job holds its key.
local function restore_record(id)
  local packed = call('HGET', K.records, id)
  local record = packed and unpacked(packed) or {}
  if record.s ~= 'cancelled' and record.s ~= 'expired' or call('HEXISTS', K.jobs, id) == 0 then
    return false
  end
  if record.q then
    put_rare('u', K.keyed, id, record.q)
    local other = reacquire_key(id)
    if other then
      call('HDEL', K.keyed, id)
      return other
    end
  end
  delete_record(id, packed)
  if record.p then
    put_rare('p', K.priority, id, record.p)
  end
  if record.f then
    put_rare('f', K.errors, id, record.f)
  end
  if is_odd_round(record.z) then
    put_rare('z', K.snoozes, id, ms(C.odd))
  end
  if record.g then
    store_group_of(id, group_in(record.g), chain_in(record.g), record.c)
  end
  if record.d then
    call('HSET', K.given, id, record.d)
  end
  return true
end

-- Takes triples of an id, its envelope without an expiry or '' if it has none, and in the first
-- case the envelope as it was read. Returns for each: 0 not changed, 1 changed, 3 its envelope has
-- changed since, or the id of the job that holds its key.
local function requeue_jobs(triples)
  local answers, woken = {}, false
  for at = 1, #triples, 3 do
    local id, anew, wanted = triples[at], triples[at + 1], false
    if anew ~= '' and call('HGET', K.jobs, id) ~= triples[at + 2] then
      wanted = 3
    elseif call('ZSCORE', K.dead, id) then
      wanted = has('u') and reacquire_key(id) or true
      if wanted == true then
        remove_dead(id)
        clear_counts(id)
      end
    else
      wanted = restore_record(id)
    end
    if wanted == true then
      if anew ~= '' then
        may_have_tags = has('i')
        put_job(id, anew)
      end
      woken = return_to_ready({ id }, false) or woken
      count('requeued', 1)
    end
    answers[(at + 2) / 3] = wanted == true and 1 or wanted or 0
  end
  if woken then
    hint()
  end
  return answers
end
