-- Stores jobs of all kinds. Jobs that are stored in the same way are stored together.
--- include doors/ready, doors/end, doors/keys, doors/tags

local behind = unknown_to_a_lane(ARGV[3])
if behind then
  return redis.error_reply('BEHIND ' .. behind)
end
if string.find(ARGV[3], 'l', 1, true) then
  set_bit('l')
end
may_have_tags = string.find(ARGV[3], 'i', 1, true) ~= nil

-- A digit for each job, and the ids that the digits from 3 on name.
local answers, named = nil, {}
local total, enqueued = 0, 0
local woken = false
local later = {}
-- The group of the following jobs. For each group, the number of its jobs that are added at the end
-- of this part.
local group, coming, chain, cost = nil, {}, nil, nil

-- Groups in which a job of this relay was refused. Later jobs of the relay in these groups get 7,
-- so that the order is kept.
local refused = {}

-- Whether no further job of a group may be stored.
local function is_full(group)
  local most = group and rule_of(group).most
  if most and group_depth(group) + (coming[group] or 0) >= most then
    refused[group] = request ~= ''
    return true
  end
  return false
end

local function time_of(delay, at)
  if delay ~= '' then
    return time_after_delay(delay)
  end
  return at ~= '' and tonumber(at) or now
end

local function place_job(id, priority, at)
  if group or chain then
    store_group_of(id, group, chain, cost)
  end
  if priority ~= '2' then
    put_rare('p', K.priority, id, priority)
  end
  if at > now then
    table.insert(later, ms(at))
    table.insert(later, id)
  else
    woken = push({ id }, false) or woken
  end
end

local function ended_without_run(record)
  local state = state_of(record)
  return state == 'cancelled' or state == 'expired'
end

-- The answer for a chosen id that is known: 1 its job exists, 2 another job has that id. If the id
-- is free, also the record that the new job replaces.
local function check_given_id(id, digest)
  local record = call('HGET', K.records, id)
  if ended_without_run(record) then
    return nil, record
  end
  local known = call('HGET', K.given, id)
  if not known and not record and call('HEXISTS', K.jobs, id) == 1 then
    -- Another program has deleted its digest. A second job with this id would be a duplicate.
    known = digest
    call('HSET', K.given, id, digest)
  end
  if known then
    return known == digest and 1 or 2
  end
  return nil, record
end

-- Whether the broker has the job of a generated id. Only a relay sends such a job again.
local function is_stored(id)
  return call('HEXISTS', K.jobs, id) == 1 or call('HEXISTS', K.records, id) == 1
end

-- Removes the record of an earlier job with the same id, which must not be mistaken for the record
-- of the new job.
local function replace_record(id, record)
  if record then
    if ended_without_run(record) then
      free_id(id)
    end
    delete_record(id, record)
    delete_progress({ id })
    record_left({ id }, nil)
  end
end

-- Stores a job with a chosen id. Returns 0 stored, 6 group full, 7 an earlier job of the group was
-- refused, or the answer for a known id.
local function store_given(id, envelope, priority, at, digest)
  local known, record = check_given_id(id, digest)
  if known then
    return known
  elseif group and refused[group] then
    return 7
  elseif is_full(group) then
    return 6
  end
  replace_record(id, record)
  put_job(id, envelope)
  call('HSET', K.given, id, digest)
  place_job(id, priority, at)
  return 0
end

--- include enqueue/unique

-- Stores jobs of groups that are ready now, with generated ids and without a unique key. The
-- arguments of each job are id, envelope, priority and group, and with a `width` of 6 also chain
-- and cost. Returns the number of stored jobs.
local function store_grouped(from, n, width)
  local bodies, places, ids, priorities, costs, stored = {}, {}, {}, {}, {}, 0
  coming = {}
  for at = from, from + width * n - 1, width do
    local id, of, keys = ARGV[at], ARGV[at + 3], width == 6 and ARGV[at + 4] or NO_LIMITS
    if is_full(of) then
      answers = answers or {}
      answers[total + (at - from) / width + 1] = 6
    else
      stored, coming[of] = stored + 1, (coming[of] or 0) + 1
      ids[stored], bodies[2 * stored - 1], bodies[2 * stored] = id, id, ARGV[at + 1]
      places[2 * stored - 1], places[2 * stored] = id, keys .. string.rep('\0', 8) .. of
      if width == 6 and ARGV[at + 5] ~= '1' then
        costs[#costs + 1], costs[#costs + 2] = id, ARGV[at + 5]
      end
      if ARGV[at + 2] ~= '2' then
        priorities[#priorities + 1], priorities[#priorities + 2] = id, ARGV[at + 2]
      end
    end
  end
  coming = {}
  if stored > 0 then
    set_bit('g')
    if #priorities > 0 then
      set_bit('p')
      set_fields(K.priority, priorities)
    end
    if #costs > 0 then
      set_bit('m')
      set_fields(K.costs, costs)
    end
    put_jobs(bodies)
    set_fields(K.grouped, places)
    woken = push(ids, false) or woken
  end
  return stored
end

-- Stores jobs of a relay with generated ids and without a unique key. The arguments of each job are
-- id, envelope, priority, delay and time.
local function store_relayed(from, n)
  local ids = {}
  for at = 1, n do
    ids[at] = ARGV[from + 5 * at - 5]
  end
  local jobs, records = call('HMGET', K.jobs, unpack(ids)), call('HMGET', K.records, unpack(ids))
  local bodies, line, taken = {}, {}, {}
  for at = 1, n do
    local i, id = from + 5 * at - 5, ids[at]
    total = total + 1
    if jobs[at] or records[at] or taken[id] then
      answers[total] = 1
    elseif group and refused[group] then
      answers[total] = 7
    elseif is_full(group) then
      answers[total] = 6
    else
      local priority, due_at = ARGV[i + 2], time_of(ARGV[i + 3], ARGV[i + 4])
      taken[id], enqueued = true, enqueued + 1
      table.insert(bodies, id)
      table.insert(bodies, ARGV[i + 1])
      if has('v') then
        envelopes[id] = ARGV[i + 1]
      end
      if group or chain or priority ~= '2' or due_at > now then
        place_job(id, priority, due_at)
      else
        table.insert(line, id)
      end
    end
  end
  put_jobs(bodies)
  if #line > 0 then
    woken = push(line, false) or woken
  end
end

local i = 4
while i <= #ARGV do
  local kind = ARGV[i]
  if kind == 'r' then
    local list, n = tonumber(ARGV[i + 1]), tonumber(ARGV[i + 2])
    local from, to = i + 3, i + 2 + 2 * n
    if list ~= 2 then
      set_bit('p')
      local pairs_ = {}
      for at = from, to, 2 do
        table.insert(pairs_, ARGV[at])
        table.insert(pairs_, ARGV[i + 1])
      end
      set_fields(K.priority, pairs_)
    end
    woken = store(from, to, LISTS[list]) or woken
    total, enqueued = total + n, enqueued + n
    i = to + 1
  elseif kind == 'G' then
    group = ARGV[i + 1] ~= '' and ARGV[i + 1] or nil
    i = i + 2
  elseif kind == 'q' then
    local n = tonumber(ARGV[i + 1])
    enqueued = enqueued + store_grouped(i + 2, n, 4)
    total, i = total + n, i + 2 + 4 * n
  elseif kind == 'M' then
    chain, cost = ARGV[i + 1] ~= '' and ARGV[i + 1] or nil, ARGV[i + 2]
    i = i + 3
  elseif kind == 'm' then
    local n = tonumber(ARGV[i + 1])
    enqueued = enqueued + store_grouped(i + 2, n, 6)
    total, i = total + n, i + 2 + 6 * n
  elseif kind == 's' then
    local n = tonumber(ARGV[i + 1])
    local bodies = {}
    for at = i + 2, i + 1 + 5 * n, 5 do
      total = total + 1
      if is_full(group) then
        answers = answers or {}
        answers[total] = 6
      else
        table.insert(bodies, ARGV[at])
        table.insert(bodies, ARGV[at + 1])
        if has('v') then
          envelopes[ARGV[at]] = ARGV[at + 1]
        end
        place_job(ARGV[at], ARGV[at + 2], time_of(ARGV[at + 3], ARGV[at + 4]))
        enqueued = enqueued + 1
      end
    end
    put_jobs(bodies)
    i = i + 2 + 5 * n
  elseif kind == 'o' then
    local n = tonumber(ARGV[i + 1])
    answers = answers or {}
    store_relayed(i + 2, n)
    i = i + 2 + 5 * n
  elseif kind == 'x' then
    answers = answers or {}
    for _ = 1, tonumber(ARGV[i + 1]) do
      total = total + 1
      answers[total] = 7
    end
    if group then
      refused[group] = true
    end
    i = i + 2
  elseif kind == 'u' then
    local n = tonumber(ARGV[i + 1])
    answers = answers or {}
    store_uniques(i + 2, n)
    i = i + 2 + 10 * n
  elseif kind == 'k' then
    local n = tonumber(ARGV[i + 3])
    store_keyed(i + 4, n, ARGV[i + 1], ARGV[i + 2])
    i = i + 4 + 3 * n
  else
    local n = tonumber(ARGV[i + 1])
    answers = answers or {}
    for at = i + 2, i + 1 + 6 * n, 6 do
      total = total + 1
      answers[total] = store_given(ARGV[at], ARGV[at + 1], ARGV[at + 2], time_of(ARGV[at + 3], ARGV[at + 4]), ARGV[at + 5])
      enqueued = enqueued + (answers[total] == 0 and 1 or 0)
    end
    i = i + 2 + 6 * n
  end
end

store_waiting(K.scheduled, later)
if woken then
  hint()
end
count('enqueued', enqueued)
if enqueued == total and #named == 0 then
  call('HSET', K.producers, ARGV[1], ARGV[2])
  return false
end
-- A digit for each job.
for at = 1, total do
  answers[at] = answers[at] or 0
end
local exceptional = table.concat(answers)
if #named == 0 then
  call('HSET', K.producers, ARGV[1], ARGV[2] .. ':' .. exceptional)
  return exceptional
end
call('HSET', K.producers, ARGV[1], ARGV[2] .. ':' .. exceptional .. ':' .. cmsgpack.pack(named) .. ';')
return { exceptional, unpack(named) }
