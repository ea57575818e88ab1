-- Returns active jobs to a waiting state. `push` and `wait` find the place. This fragment checks
-- the conditions.
--- include doors/ready, doors/end

-- Cancels a job whose key a younger job has taken meanwhile. It is called for each job that was
-- active, before the job gets a place.
local function cancel_if_superseded(id)
  local other = has('u') and reacquire_key(id)
  if other then
    end_without_run(id, 'cancelled', 'superseded by ' .. displayed_id(other))
  end
  return other
end

-- Pushes jobs to the head or the end of their lists. True: a list was empty before.
local function return_to_ready(ids, at_head)
  return push(ids, at_head)
end

-- Parks a job until a worker knows its task and has a release that has not failed to read the job.
local function park_job(id, task)
  record_entered({ id }, 'parked')
  set_bit('a')
  record_tick_ends({ id }, 'parked')
  local name = task .. (call('HGET', K.releases, id) or '')
  call('ZADD', K.parked, 0, name .. '\0' .. id)
  call('HSET', K.notes, id, name)
end

-- Parks a job that a release cannot read. `what` is `WITHIN:TASK NUL RELEASE`. The sweep buries the
-- job after `WITHIN` ms.
local function park_unreadable(id, what)
  local within, task, release = string.match(what, '^(%d+):(%Z*)%z(.*)$')
  local until_ms = whole(call('ZSCORE', K.unreadable, id) or now + within)
  local known, releases = {}, {}
  for name in string.gmatch((call('HGET', K.releases, id) or '') .. '\1' .. release, '\1([^\1]*)') do
    if not known[name] then
      known[name], releases[#releases + 1] = true, name
    end
  end
  table.sort(releases)
  set_bit('a')
  call('ZADD', K.unreadable, ms(#releases > C.releases and now or until_ms), id)
  set_field(K.releases, id, '\1' .. table.concat(releases, '\1'))
  park_job(id, task)
end

-- Adds a failure to a job's history and removes the oldest ones.
local function add_failure(id, text)
  local failures = unpacked_pairs(call('HGET', K.errors, id))
  table.insert(failures, { ms(now), text })
  while #failures > 10 do
    table.remove(failures, 1)
  end
  put_rare('f', K.errors, id, cmsgpack.pack(failures))
end

-- Counts a run that ended because its worker stopped.
local function count_return(id)
  local before = string.match(call('HGET', K.returned, id) or '', '^%d+')
  put_rare('z', K.returned, id, ms(whole(before) + 1) .. ':' .. ms(now))
end

-- In odd rounds of a repeating job, the number of snoozes is larger by `C.odd`.
local function is_odd_round(snoozes)
  return math.floor(whole(snoozes) / C.odd) % 2 == 1
end

-- Clears the snoozes and rate limits of a job, for its next round or for the same one.
local function clear_snoozes(id, next_round)
  local snoozes = call('HGET', K.snoozes, id)
  if is_odd_round(snoozes) ~= next_round then
    put_rare('z', K.snoozes, id, ms(C.odd))
  elseif snoozes then
    call('HDEL', K.snoozes, id)
  end
end

-- Resets the counters of a job to those of a job that has never run, in the same round.
local function clear_counts(id)
  for _, key in ipairs({ K.attempts, K.crashes, K.returned }) do
    call('HDEL', key, id)
  end
  clear_snoozes(id, false)
end
