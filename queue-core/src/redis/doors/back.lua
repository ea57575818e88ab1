-- back: to waiting again. `push` and `wait` find the place; what a job has to be to come back is
-- asked here.
--- include doors/ready, doors/end

-- A job comes back, and a younger one has its key: it ends. Asked of every job that was active,
-- before it is given a place.
local function superseded(id)
  local other = has('u') and younger(id)
  if other then
    end_unrun(id, 'cancelled', 'superseded by ' .. text_of(other))
  end
  return other
end

-- Ready now, at the head of its list or at the end. True: a list was empty before.
local function back(ids, at_head)
  return push(ids, at_head)
end

-- Parked until a worker comes that knows the task, of a release that has not failed to read the
-- job.
local function back_parked(id, task)
  entered({ id }, 'parked')
  set_bit('a')
  end_ticks({ id }, 'parked')
  local name = task .. (call('HGET', K.releases, id) or '')
  call('ZADD', K.parked, 0, name .. '\0' .. id)
  call('HSET', K.notes, id, name)
end

-- Parked because a release cannot read the job: `WITHIN:TASK NUL RELEASE`. The sweep buries it when
-- its time is over.
local function back_unreadable(id, what)
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
  put(K.releases, id, '\1' .. table.concat(releases, '\1'))
  back_parked(id, task)
end

-- One more failure in a job's history; the oldest go first.
local function add_failure(id, text)
  local failures = unpacked_pairs(call('HGET', K.errors, id))
  table.insert(failures, { ms(now), text })
  while #failures > 10 do
    table.remove(failures, 1)
  end
  put_rare('f', K.errors, id, cmsgpack.pack(failures))
end

-- A run was stopped because its worker stops.
local function count_return(id)
  local before = string.match(call('HGET', K.returned, id) or '', '^%d+')
  put_rare('z', K.returned, id, ms(whole(before) + 1) .. ':' .. ms(now))
end

-- In odd rounds of a job that repeats, the number of snoozes has `C.odd` more.
local function is_odd(snoozes)
  return math.floor(whole(snoozes) / C.odd) % 2 == 1
end

-- No snooze and no rate limit, in the next round of a job that repeats or in the same one.
local function clear_snoozes(id, next_round)
  local snoozes = call('HGET', K.snoozes, id)
  if is_odd(snoozes) ~= next_round then
    put_rare('z', K.snoozes, id, ms(C.odd))
  elseif snoozes then
    call('HDEL', K.snoozes, id)
  end
end

-- Counters as those of a job that has never run, in the same round.
local function clear_counts(id)
  for _, key in ipairs({ K.attempts, K.crashes, K.returned }) do
    call('HDEL', key, id)
  end
  clear_snoozes(id, false)
end
