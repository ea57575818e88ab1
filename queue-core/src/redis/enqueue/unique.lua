-- Jobs with unique keys: 'u', n, then for each job:
--
--   id, envelope, priority, delay or '', time or '', digest, key
--   the hold: 'e', 's', or a hold time in milliseconds
--   the conflict handling: 's' skip, 'r' replace, 'f' replace all but the payload, 'b' buffer one
--   the longest time by which later jobs may postpone the job, or ''
--- include doors/keys, script/first_due

-- Whether a scheduled job has become ready or was postponed.
local moved = false

-- Jobs that can be stored together: their keys are free, and they have no rare properties.
local alike = { jobs = {}, keyed = {}, unique = {}, ids = {} }

-- Stores all jobs that were collected before.
local function store_alike_jobs()
  store_waiting(K.scheduled, later)
  later = {}
  if #alike.ids > 0 then
    set_bit('u')
    put_jobs(alike.jobs)
    set_fields(K.keyed, alike.keyed)
    set_fields(K.unique, alike.unique)
    woken = push(alike.ids, false) or woken
    alike = { jobs = {}, keyed = {}, unique = {}, ids = {} }
  end
end

-- The state of the job that holds a key.
local function state_of_holder(id)
  if call('HEXISTS', K.active, id) == 1 then
    return 'active'
  elseif call('ZSCORE', K.retry, id) then
    return 'retry'
  elseif call('ZSCORE', K.scheduled, id) then
    return 'scheduled'
  end
  return call('HEXISTS', K.notes, id) == 1 and 'parked' or 'ready'
end

local function set_priority(id, priority)
  if priority ~= '2' then
    put_rare('p', K.priority, id, priority)
  else
    call('HDEL', K.priority, id)
  end
end

-- Gives a job that has not started the time and the priority of another job.
local function reschedule(id, state, key, priority, at)
  if state == 'held' then
    set_priority(id, priority)
    store_waiter_for_key(key, at, id)
  elseif state ~= 'ready' or at > now or (call('HGET', K.priority, id) or '2') ~= priority then
    remove_waiting(id)
    set_priority(id, priority)
    count('.replaced', 1)
    wait_or_push(id, at)
    moved = true
  end
end

-- Stores a job that waits until its key is free.
local function store_held(id, envelope, priority, at, digest, key, hold)
  put_job(id, envelope)
  if byte(id) == 61 then -- '='
    call('HSET', K.given, id, digest)
  end
  if priority ~= '2' then
    put_rare('p', K.priority, id, priority)
  end
  store_key_of(id, key, hold)
  if group or chain then
    store_group_of(id, group, chain, cost)
  end
  store_waiter_for_key(key, at, id)
  record_entered({ id }, 'held')
end

-- Stores one job with a key. Returns a code, and the id that it names:
--
--   0  stored
--   1  exists
--   2  the given id belongs to a job with another digest
--   3  duplicate; the id of the job that holds the key
--   4  replaced; the id of the changed job
--   5  held until the key is free; the id of the held job
--   6  the group is full
--   7  an earlier job of the group was refused
local function store_unique(is_free, id, envelope, priority, delay, at, digest, key, hold, conflict, most)
  local known, record = nil, nil
  if byte(id) == 61 then -- '='
    known, record = check_given_id(id, digest)
    if known then
      return known
    end
  elseif request ~= '' and is_stored(id) then
    return 1
  end
  if group and refused[group] then
    return 7
  end
  local due_at, letter = time_of(delay, at), tonumber(hold) and 'w' or hold
  if most ~= '' then
    due_at = math.min(due_at, now + most)
  end
  local other, upto = nil, nil
  if not is_free then
    store_alike_jobs()
    other, upto = holder_of(key)
  end
  if not other then
    if is_full(group) then
      return 6
    elseif not group and not chain and byte(id) ~= 61 and priority == '2' and due_at <= now and letter ~= 'w' then -- '='
      local n = #alike.ids
      alike.ids[n + 1] = id
      alike.jobs[2 * n + 1], alike.jobs[2 * n + 2] = id, envelope
      alike.keyed[2 * n + 1], alike.keyed[2 * n + 2] = id, key .. letter .. ms(now)
      alike.unique[2 * n + 1], alike.unique[2 * n + 2] = key, id
      return 0
    end
    store_alike_jobs()
    replace_record(id, record)
    put_job(id, envelope)
    if byte(id) == 61 then -- '='
      call('HSET', K.given, id, digest)
    end
    store_key_of(id, key, letter)
    if letter == 'w' then
      hold_key_for_duration(key, id, whole(hold))
    else
      put_rare('u', K.unique, key, id)
    end
    place_job(id, priority, due_at)
    return 0
  end
  if upto or conflict == 's' or letter == 'w' then
    return 3, other
  end
  local waits = waiter_for_key(key)
  local changed, state = waits or other, waits and 'held' or state_of_holder(other)
  local stays = state == 'retry' or state == 'parked'
  if state == 'active' or stays and conflict == 'b' then
    replace_record(id, record)
    store_held(id, envelope, priority, due_at, digest, key, letter)
    return 5, id
  end
  if conflict ~= 'f' then
    put_job(changed, envelope)
  end
  if conflict ~= 'b' and not stays then
    if most ~= '' then
      local _, _, first = key_in(call('HGET', K.keyed, changed) or '')
      due_at = math.min(due_at, math.min(first, now) + most)
    end
    reschedule(changed, state, key, priority, due_at)
  end
  return waits and 5 or 4, changed
end

-- Stores the outcome of a job.
local function answer_unique(id, answer, other)
  total = total + 1
  answers[total] = answer
  if other then
    named[#named + 1] = other
  end
  enqueued = enqueued + ((answer == 0 or answer == 5 and other == id) and 1 or 0)
end

-- Stores the jobs that were collected, and updates the next due time.
local function finish_uniques()
  store_alike_jobs()
  if moved then
    update_due()
  end
end

-- Stores `n` jobs with unique keys, from the argument `from` on.
local function store_uniques(from, n)
  local keys, taken = {}, {}
  for at = 1, n do
    keys[at] = ARGV[from + 10 * at - 4]
  end
  local holders = call('HMGET', K.unique, unpack(keys))
  for at = 1, n do
    local i = from + 10 * (at - 1)
    local is_free = not holders[at] and not taken[keys[at]]
    answer_unique(ARGV[i], store_unique(is_free, unpack(ARGV, i, i + 9)))
    taken[keys[at]] = true
  end
  finish_uniques()
end

-- Stores `n` jobs with generated ids and normal priority that have the same hold and conflict
-- handling, are ready now and have no group. The arguments are pairs of id and envelope, then the
-- keys. Usually each key is free, and all jobs are stored in one piece.
local function store_keyed(from, n, hold, conflict)
  local keys_from = from + 2 * n
  local holders = call('HMGET', K.unique, unpack(ARGV, keys_from, keys_from + n - 1))
  local keyed, unique, ids, taken, are_free = {}, {}, {}, {}, true
  local held = hold .. ms(now)
  for at = 1, n do
    local id, key = ARGV[from + 2 * at - 2], ARGV[keys_from + at - 1]
    if holders[at] or taken[key] then
      are_free = false
      break
    end
    taken[key], ids[at] = true, id
    keyed[2 * at - 1], keyed[2 * at], unique[2 * at - 1], unique[2 * at] = id, key .. held, key, id
  end
  if are_free then
    set_bit('u')
    set_fields(K.keyed, keyed)
    set_fields(K.unique, unique)
    woken = store(from, keys_from - 1, K.ready2) or woken
    total, enqueued = total + n, enqueued + n
    return
  end
  taken, answers = {}, answers or {}
  for at = 1, n do
    local id, key = ARGV[from + 2 * at - 2], ARGV[keys_from + at - 1]
    local is_free = not holders[at] and not taken[key]
    answer_unique(id, store_unique(is_free, id, ARGV[from + 2 * at - 1], '2', '', '', '', key, hold, conflict, ''))
    taken[key] = true
  end
  finish_uniques()
end
