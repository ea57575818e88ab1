-- Endings: ack, bury, cancel, expire, delete, evict, repair. An ending releases everything that the
-- job holds, including its unique key. `end_deleted` deletes the job. `end_kept` keeps its record
-- for a while. `end_dead` makes it a dead letter, which may be requeued. The caller has removed the
-- job from its place before: `settle`, `remove_waiting`, `delete_record`, `remove_dead`.
--
-- `ended` lists kept jobs in the order in which they ended: as `id`, or as `until:id` if the id may
-- be used again (chosen ids) or looks like that. All jobs in `ended` have the same retention, so
-- the first one expires first. Jobs with another retention are in `lapsing`, by the time until
-- which they are kept. For this reason no record outlives its retention because of another record.
-- `lapse` in `meta` has the retention of `ended`, with the suffix `:1` while `lapsing` may have
-- jobs. `records` has the fields of each kept job except its envelope, which stays in `jobs`.
--- include script/tools, script/has, doors/keys, doors/groups, schedule/ended, doors/watched, doors/progress, doors/tags, doors/transitions

-- Removes the notes about releases that could not read jobs.
local function delete_unreadable(ids)
  call_in_pieces('ZREM', K.unreadable, ids)
  call_in_pieces('HDEL', K.releases, ids)
end

-- Removes the fields of live jobs except their envelopes.
local function delete_job_fields(ids)
  if has('f') then
    call_in_pieces('HDEL', K.attempts, ids)
    call_in_pieces('HDEL', K.errors, ids)
  end
  if has('u') then
    release_keys(ids, true)
  end
  if has('g') and #ids > 0 then
    unblock_groups(ids, true)
  end
  if has('z') then
    call_in_pieces('HDEL', K.snoozes, ids)
    call_in_pieces('HDEL', K.returned, ids)
  end
  if has('c') then
    call_in_pieces('HDEL', K.crashes, ids)
  end
  if has('p') then
    call_in_pieces('HDEL', K.priority, ids)
  end
  if has('a') then
    delete_unreadable(ids)
  end
end

-- Remembers the ids of done jobs that applications have chosen. For a while, a late enqueue with
-- such an id adds no second job.
local function remember_given_ids(ids)
  local given = {}
  for at = 1, #ids do
    if byte(ids[at]) == 61 then -- '='
      given[#given + 1], given[#given + 2] = ms(now), ids[at]
    end
  end
  if #given > 0 then
    call('ZADD', K.remembered, unpack(given))
  end
end

-- Allows a chosen id to be used again.
local function free_id(id)
  if byte(id) == 61 then -- '='
    call('HDEL', K.given, id)
    call('ZREM', K.remembered, id)
  end
end

-- Removes all data of a job. The recorded transition is to `removed`, or to the given state.
local function end_deleted(ids, state)
  record_entered(ids, state or 'removed')
  record_tick_ends(ids, 'deleted')
  notify_ended(ids)
  delete_progress(ids)
  drop_tags(ids)
  call_in_pieces('HDEL', K.jobs, ids)
  delete_job_fields(ids)
end

local function state_of(record)
  return (unpacked(record) or {}).s
end

local lapse = nil

-- The retention of the records in `ended`, or nil if it is unknown, and whether `lapsing` may have
-- records.
local function list_retention()
  lapse = lapse or call('HGET', K.meta, 'lapse') or ''
  local duration, beside = string.match(lapse, '^(%d+)(:?1?)$')
  return tonumber(duration or ''), beside == ':1'
end

local function set_list_retention(duration, beside)
  lapse = ms(duration) .. (beside and ':1' or '')
  call('HSET', K.meta, 'lapse', lapse)
end

-- Removes the record of an id and subtracts its bytes from the count. Its entry in `ended` remains
-- until it reaches the head.
local function delete_record(id, record)
  local kept = unpacked(record) or {}
  call('HDEL', K.records, id)
  local _, beside = list_retention()
  if beside then
    call('ZREM', K.lapsing, id)
  end
  count('.kept_bytes', -whole(kept.b))
  if type(kept.s) == 'string' then
    record_left({ id }, kept.s)
    count('.kept:' .. kept.s, -1)
  end
end

-- Parses the sizes of jobs: a list, or one size that all jobs have.
local function sizes_of(text)
  if not string.find(text, ',', 1, true) then
    return whole(text)
  end
  local sizes = {}
  for size in string.gmatch(text, '%d+') do
    sizes[#sizes + 1] = whole(size)
  end
  return sizes
end

-- Keeps jobs that ended in the same state. `sizes` is a list, or one size that all jobs have.
-- `results` may be empty. If the jobs are only some of those with `sizes` and `results`, `places`
-- has their positions there. `digest` is that of a chosen id that may be used again.
local function end_kept(ids, state, keep_ms, sizes, results, note, places, digest)
  set_bit('k')
  record_entered(ids, state, note)
  record_tick_ends(ids, state)
  notify_ended(ids)
  local ended_ms, until_ms, total = ms(now), ms(now + keep_ms), 0
  local one_size, known = type(sizes) == 'number' and sizes, nil
  local function read_field(name, bit, key)
    if has(bit) then
      known = known or {}
      known[name] = call('HMGET', key, unpack(ids))
    end
  end
  read_field('a', 'f', K.attempts)
  read_field('f', 'f', K.errors)
  read_field('z', 'z', K.snoozes)
  read_field('o', 'z', K.returned)
  read_field('p', 'p', K.priority)
  read_field('q', 'u', K.keyed)
  read_field('g', 'g', K.grouped)
  read_field('c', 'm', K.costs)
  read_field('k', 'c', K.crashes)
  local records, lines, alike = {}, { unpack(ids) }, {}
  for i = 1, #ids do
    local place = places and places[i] or i
    local result = results[place] or ''
    local size, differs = (one_size or sizes[place] or 0) + #result, result ~= '' or digest
    if known then
      for _, values in pairs(known) do
        differs = differs or values[i]
      end
    end
    local packed = not differs and alike[size]
    if not packed then
      local record = { s = state, e = ended_ms, u = until_ms, b = size, n = note, r = result ~= '' and result or nil, d = digest }
      for name, values in pairs(known or {}) do
        record[name] = values[i] or nil
      end
      packed = cmsgpack.pack(record)
      -- Most records differ only in their id, so they share one packed value.
      alike[size] = not differs and packed or alike[size]
    end
    local id = ids[i]
    total, records[2 * i - 1], records[2 * i] = total + size, id, packed
    -- A job that may be requeued may end again under its id.
    if string.byte(id) >= 48 or state ~= 'done' then -- '0'
      lines[i] = until_ms .. ':' .. id
    end
  end
  set_fields(K.records, records)
  local duration, beside = list_retention()
  local own = whole(keep_ms)
  -- `ended` is for the retention that most jobs have. Done jobs replace fewer entries with another
  -- retention.
  if duration ~= own and state == 'done' then
    local fewer = call('LLEN', K.ended) < #ids
    for _, line in ipairs(fewer and call('LRANGE', K.ended, 0, -1) or {}) do
      local upto, other = string.match(line, '^(%d+):(.*)$')
      local packed = call('HGET', K.records, other or line)
      -- A damaged record is removed at the end of its retention, as every other record is.
      local record = packed and (unpacked(packed) or { u = upto or ms(now) })
      -- Otherwise the entry belongs to an earlier record of the same id.
      if record and (upto or record.u) == record.u then
        call('ZADD', K.lapsing, ms(whole(record.u)), other or line)
        beside = true
      end
    end
    if fewer then
      call('LTRIM', K.ended, 1, 0)
      duration = own
      set_list_retention(duration, beside)
    end
  end
  if duration == own then
    call_in_pieces('RPUSH', K.ended, lines)
  else
    if not beside then
      set_list_retention(duration or 0, true)
    end
    local members = {}
    for i, id in ipairs(ids) do
      members[2 * i - 1], members[2 * i] = until_ms, id
    end
    call_in_pieces('ZADD', K.lapsing, members)
  end
  count('.kept_bytes', total)
  count('.kept:' .. state, #ids)
  delete_job_fields(ids)
end

local function end_kept_job(id, state, keep_ms, result, note, digest)
  end_kept({ id }, state, keep_ms, call('HSTRLEN', K.jobs, id), { result }, note, nil, digest)
end

-- Cancelled or expired jobs are kept for a day, and a chosen id may be used again.
local function end_without_run(id, state, note)
  end_kept_job(id, state, C.unrun_ms, '', note, byte(id) == 61 and call('HGET', K.given, id) or nil)
  free_id(id)
  count(state, 1)
end

-- A dead job keeps all its data and its chosen id, because it may be requeued.
local function end_dead(id, reason)
  record_entered({ id }, 'dead', reason)
  if has('u') then
    release_keys({ id }, false)
  end
  if has('g') then
    unblock_groups({ id }, false)
  end
  if has('a') then
    delete_unreadable({ id })
  end
  record_tick_ends({ id }, 'dead')
  notify_ended({ id })
  call('ZADD', K.dead, ms(now), id)
  call('HSET', K.notes, id, reason)
  count('.dead_bytes', call('HSTRLEN', K.jobs, id))
  if has('c') then
    count('.dead_crashed', call('HEXISTS', K.crashes, id))
  end
  count('dead', 1)
end

-- Removes a dead job from the set and the counters, and leaves its other data. The bit of crashes
-- is not set while all jobs with crashes are dead.
local function remove_dead(id)
  if call('HEXISTS', K.crashes, id) == 1 then
    set_bit('c')
    count('.dead_crashed', -1)
  end
  record_left({ id }, 'dead')
  call('ZREM', K.dead, id)
  call('HDEL', K.notes, id)
  count('.dead_bytes', -call('HSTRLEN', K.jobs, id))
end

-- The time until which the job at a place of `ended` is kept.
local function kept_until_at(place)
  local line = call('LRANGE', K.ended, place, place)[1]
  return line and whole(string.match(line, '^(%d+):') or (unpacked(call('HGET', K.records, line) or '') or {}).u) or FOREVER
end

-- Removes at most `items` kept jobs. A job is removed when its retention has expired. If a limit is
-- exceeded, jobs with the shortest retention are removed earlier.
local function trim_ended(items, max_count, max_bytes)
  local duration, beside = list_retention()
  local others = beside and call('ZCARD', K.lapsing) or 0
  local removed, all = 0, call('LLEN', K.ended) + others
  local bytes, freed, states = whole(call('HGET', K.counters, '.kept_bytes')), 0, {}

  -- Removes the first of these jobs while their retention has expired or a limit is exceeded.
  -- Returns how many it has passed.
  local function remove_expired(ids, untils, latest)
    local records = call('HMGET', K.records, unpack(ids))
    local gone, passed = {}, 0
    for i, id in ipairs(ids) do
      local record = records[i] and (unpacked(records[i]) or { u = untils[i] })
      local upto = untils[i] or record and record.u
      if upto and whole(upto) > now and (whole(upto) > latest or all <= max_count and bytes <= max_bytes) then
        break
      end
      passed, all = i, all - 1
      -- A later job with the same chosen id has a separate record and a separate entry.
      if record and record.u == upto and not gone[id] then
        gone[id] = true
        gone[#gone + 1] = id
        freed, bytes = freed + whole(record.b), bytes - whole(record.b)
        if type(record.s) == 'string' then
          states[record.s] = (states[record.s] or 0) + 1
        end
      end
    end
    call_in_pieces('HDEL', K.records, gone)
    drop_tags(gone)
    call_in_pieces('HDEL', K.jobs, gone)
    delete_progress(gone)
    removed = removed + passed
    return passed
  end

  -- The same for `lapsing`. If a limit is exceeded, it removes jobs whose retention ends no later
  -- than that of the first entry in `ended`.
  local function remove_expired_lapsing()
    local latest = (all > max_count or bytes > max_bytes) and kept_until_at('0') or 0
    local found = call('ZRANGEBYSCORE', K.lapsing, '-inf', ms(math.max(now, latest)), 'WITHSCORES', 'LIMIT', 0, math.min(items - removed, PIECE))
    local ids, untils = {}, {}
    for at = 1, #found, 2 do
      ids[#ids + 1], untils[#untils + 1] = found[at], ms(whole(found[at + 1]))
    end
    if #ids > 0 then
      call_in_pieces('ZREM', K.lapsing, { unpack(ids, 1, remove_expired(ids, untils, latest)) })
    end
  end

  if others > 0 then
    remove_expired_lapsing()
  elseif beside then
    set_list_retention(duration, false)
  end
  while removed < items and all > 0 do
    -- Usually the first entry is enough to see that no record has to be removed.
    local lines = call('LRANGE', K.ended, 0, removed == 0 and 0 or math.min(items - removed, PIECE) - 1)
    local ids, untils = {}, {}
    for i, line in ipairs(lines) do
      local upto, id = string.match(line, '^(%d+):(.*)$')
      ids[i], untils[i] = id or line, upto
    end
    local passed = #lines > 0 and remove_expired(ids, untils, FOREVER) or 0
    if passed == 0 then
      break
    end
    call('LTRIM', K.ended, passed, -1)
    if passed < #lines then
      break
    end
  end
  if others > 0 and removed < items and (all > max_count or bytes > max_bytes) then
    remove_expired_lapsing()
  end
  count('.kept_bytes', -freed)
  for state, n in pairs(states) do
    count('.kept:' .. state, -n)
  end
  return removed
end
