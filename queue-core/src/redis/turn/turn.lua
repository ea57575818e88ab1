-- R2 to R5, for any queue. ARGV: worker, seq, lease, claim, suspect ('1' or '0'), most bytes, most kept, most bytes kept,
--   n task names to resume,
--   numbers of groups of acks, of those that are kept, and of other endings,
--   groups: claim, how long they are kept or '', n ids, their results: n, or 0 for none, and if they are kept their sizes, or the
--     one that all have,
--   other endings: claim, id, kind, a, b.
-- Answers: stale positions as text, ids, envelopes, counts (none, or attempts, crashes and snoozes: of each, or none), claim number,
-- now, more (1) and suspects (2), time to the next that is due or '', parked, paused, workers, whether the queue is plain (1), and
-- jobs in it have failed (2) or are kept (3). Times are in microseconds: a job starts when it is due, not a millisecond later.

local meta = call('HMGET', K.meta, 'schema', 'paused', 'claim', 'large', 'plain', 'failed', 'kept')
if meta[1] and meta[1] ~= SCHEMA then
  return too_new(meta[1])
end
local worker, seq = ARGV[1], tonumber(ARGV[2])
local entry = call('HGET', K.workers, worker)
if not entry then
  return redis.error_reply('FORGOTTEN ' .. worker)
end
local last = tonumber(string.match(entry, '^%d+') or '')
if not last then
  return redis.error_reply('FORGOTTEN ' .. worker)
elseif seq < last then
  return redis.error_reply('OLD ' .. worker .. ' ' .. ARGV[2])
elseif seq > last + 1 then
  return redis.error_reply('FORGOTTEN ' .. worker)
end
local paused, large, noted, failed = meta[2] == '1', meta[4] == '1', meta[5] or nil, meta[6] == '1'
-- Whether jobs that have ended are kept.
local has_kept = meta[7] == '1'

local i = 10 + tonumber(ARGV[9])
local groups, keeping, others = tonumber(ARGV[i]), tonumber(ARGV[i + 1]), tonumber(ARGV[i + 2])
i = i + 3

-- Whether `ready2` is known to be the only place with jobs to claim.
local level = false

--- if keeping > 0 or others > 0: ended

-- What a lane wants to know besides the jobs that it gets.
local function answer(stale, ids, bodies, counts, claim, workers, first_due, more, suspected)
  local next_due = first_due < math.huge and ms(whole(first_due * 1000 - micros)) or ''
  if more == nil then
    suspected = not level and call('EXISTS', K.suspect) == 1
    more = call('EXISTS', K.ready0, K.ready1, K.ready2, K.ready3) > 0
  end
  local parked = level and 0 or call('EXISTS', K.parked)
  local waiting = paused and 0 or (more and 1 or 0) + (suspected and 2 or 0)
  local plainness = noted and (has_kept and 3 or failed and 2 or 1) or 0
  return { stale, ids, bodies, counts, claim, ms(micros), waiting, next_due, parked, paused and 1 or 0, workers, plainness }
end

-- Envelopes of jobs, and their counts where anything has failed: none of what no job has.
local function describe(ids)
  if #ids == 0 then
    return {}, {}
  end
  local bodies, counts = call('HMGET', K.jobs, unpack(ids)), {}
  for at, key in ipairs(sparse and { K.attempts, K.crashes, K.snoozes } or {}) do
    counts[at] = call('EXISTS', key) == 1 and call('HMGET', key, unpack(ids)) or {}
  end
  for at, crash in ipairs(counts[2] or {}) do
    counts[2][at] = crash and string.match(crash, '^%d+') or false
  end
  return bodies, counts
end

if seq == last then
  -- R5: the same again, and nothing written. What was taken away since is void: it comes back without a body.
  local last_claim, last_stale, last_ids = string.match(entry, '^%d+:?(%d*):?([%d,]*):?(.*)$')
  local ids = {}
  for _, id in ipairs(last_ids ~= '' and unpacked(last_ids) or {}) do
    if type(id) == 'string' and is_id(id) then
      ids[#ids + 1] = id
    end
  end
  local bodies, counts = describe(ids)
  local tags = #ids > 0 and call('HMGET', K.active, unpack(ids))
  for i = 1, #ids do
    if tags[i] ~= worker .. ':' .. last_claim then
      bodies[i] = ''
    end
  end
  return answer(last_stale, ids, bodies, counts, last_claim ~= '' and last_claim or '0', 0, promote(false), nil)
end

if noted and others > 0 then
  -- The note comes back below, unless this stops on the way, at what other hands have broken.
  noted = nil
  note_plain(nil)
end

-- Where another program has made something else of this list, the script stops here, and no finish is carried out without an answer.
call('LLEN', K.ready2)

-- --- Finishes: nothing is believed but the tag. ---

local stale, answered = {}, {}
local position = 0
local done, kept, woken = 0, 0, false

for _ = 1, groups do
  local number, keep_ms, n = ARGV[i], ARGV[i + 1], tonumber(ARGV[i + 2])
  local tag, own, places, mine = worker .. ':' .. number, { unpack(ARGV, i + 3, i + 2 + n) }, {}, 0
  local tags = call('HMGET', K.active, unpack(own))
  for at = 1, n do
    if tags[at] == tag then
      mine = mine + 1
      own[mine], places[mine] = own[at], at
    else
      stale[#stale + 1] = position + at - 1
      answered[own[at] .. ':' .. number] = true
    end
  end
  for at = mine + 1, n do
    own[at] = nil
  end
  local given = {}
  for at = 1, mine do
    if string.byte(own[at]) == 61 then -- '='
      given[#given + 1] = ms(now)
      given[#given + 1] = own[at]
    end
  end
  if #given > 0 then
    call('ZADD', K.tombstones, unpack(given))
  end
  if mine > 0 then
    call('HDEL', K.active, unpack(own))
  end
  position = position + n
  i = i + 3 + n
  local results = tonumber(ARGV[i])
  if mine > 0 and keep_ms == '' then
    call('HDEL', K.jobs, unpack(own))
    if sparse then
      strip(own)
    end
  elseif mine > 0 then
    has_kept = true
    keep_ended(own, 'done', keep_ms, sizes_of(ARGV[i + results + 1]), { unpack(ARGV, i + 1, i + results) }, nil, places)
    kept = kept + mine
  end
  done = done + mine
  i = i + (keep_ms == '' and 1 or 2) + results
end

local retries, later = {}, {}
for _ = 1, others do
  local number, id, kind, a, b = ARGV[i], ARGV[i + 1], ARGV[i + 2], ARGV[i + 3], ARGV[i + 4]
  local tag = worker .. ':' .. number
  i = i + 5
  if call('HGET', K.active, id) ~= tag then
    table.insert(stale, position)
    answered[id .. ':' .. number] = true
  else
    call('HDEL', K.active, id)
    if sparse and kind ~= 'release' and kind ~= 'park' then
      -- The process lived through this round.
      call('HDEL', K.crashes, id)
    end
    if kind == 'nack' then
      one_more(K.attempts, id)
      add_failure(id, b)
      table.insert(retries, ms(after(a)))
      table.insert(retries, id)
      count('failed', 1)
    elseif kind == 'snooze' then
      one_more(K.snoozes, id)
      sparse = true
      table.insert(later, ms(after(a)))
      table.insert(later, id)
      count('snoozed', 1)
    elseif kind == 'repeat' then
      for _, key in ipairs({ K.attempts, K.snoozes, K.errors }) do
        call('HDEL', key, id)
      end
      if a == '0' then
        woken = push({ id }, false) or woken
      else
        table.insert(later, ms(after(a)))
        table.insert(later, id)
      end
      count('repeated', 1)
    elseif kind == 'bury' then
      if b ~= '' then
        one_more(K.attempts, id)
        add_failure(id, string.sub(b, 2))
        count('failed', 1)
      end
      bury(id, a)
    elseif kind == 'cancel' then
      has_kept = true
      keep_one(id, 'cancelled', 86400000, '', a)
      free_id(id)
      count('cancelled', 1)
    elseif kind == 'expire' then
      has_kept = true
      keep_one(id, 'expired', 86400000, '')
      free_id(id)
      count('expired', 1)
    elseif kind == 'park' then
      call('ZADD', K.parked, 0, a .. '\0' .. id)
      call('HSET', K.notes, id, a)
      woken = true
    else
      woken = push({ id }, true) or woken
      count('released', 1)
    end
  end
  position = position + 1
end
wait(K.retry, retries)
wait(K.scheduled, later)
if kept > 0 then
  -- Two go for one that comes, so that a lowered limit is reached.
  trim_ended(2 * kept, tonumber(ARGV[7]), tonumber(ARGV[8]))
end
count('done', done)
if #stale > 0 then
  -- The lane has answered for these: their notes have done their work, if there were any.
  local noted = call('HGET', K.gone, worker)
  if noted then
    local left = {}
    for _, note in ipairs(unpacked_pairs(noted)) do
      if not answered[note[1] .. ':' .. note[2]] then
        table.insert(left, note)
      end
    end
    if #left > 0 then
      call('HSET', K.gone, worker, cmsgpack.pack(left))
    else
      call('HDEL', K.gone, worker)
    end
  end
end

-- --- Promotion and claim. ---

local wanted = tonumber(ARGV[4])
local ids = {}
local last_number = whole(meta[3])
-- A number near the end of all numbers would not grow any more.
local claim = math.max(last_number < FOREVER / 4 and last_number + 1 or 0, now)
local more, suspected = nil, nil
local first_due, promoted = promote(not paused)
level = call('EXISTS', K.ready0, K.ready1, K.ready3, K.suspect, K.parked) == 0
local is_plain = level and not paused
  and not (sparse and call('EXISTS', K.snoozes, K.crashes, K.priority, K.tomb) > 0)
local until_ms = is_plain and whole(first_due) or nil
local has_failed = is_plain and sparse and call('EXISTS', K.attempts, K.errors) > 0
if noted ~= (until_ms and ms(until_ms)) or is_plain and failed ~= has_failed then
  noted, failed = until_ms, has_failed
  note_plain(noted, failed)
end
if not paused and wanted > 0 then
  local max_bytes = large and tonumber(ARGV[6])
  local may_suspect = ARGV[5] == '1'
  for name = 10, 9 + tonumber(ARGV[9]) do
    local task, room = ARGV[name], wanted - #ids
    local parked = call('ZRANGEBYLEX', K.parked, '[' .. task .. '\0', '(' .. task .. '\1', 'LIMIT', 0, has_crashes and room + 100 or room)
    local found = {}
    for at, member in ipairs(parked) do
      found[at] = string.sub(member, #task + 2)
    end
    for _, id in ipairs(leave_those_in(K.active, found) or {}) do
      call('ZREM', K.parked, task .. '\0' .. id)
      doubled = doubled + 1
    end
    if has_crashes and #found > 0 then
      -- A suspect is one here too; those that are passed over stay parked.
      local crashes, fit = call('HMGET', K.crashes, unpack(found)), {}
      for at, id in ipairs(found) do
        if #fit < room and (may_suspect or not crashes[at]) then
          fit[#fit + 1] = id
          may_suspect = may_suspect and not crashes[at]
        end
      end
      found = fit
    end
    local alive, taken = take(ids, found, nil, max_bytes)
    for at = 1, taken do
      call('ZREM', K.parked, task .. '\0' .. alive[at])
      call('HDEL', K.notes, alive[at])
    end
    if #ids >= wanted or taken < #alive then
      break
    end
  end
  if may_suspect and not level and #ids < wanted then
    local alive, taken = take(ids, call('LPOP', K.suspect, 1) or {}, 9, max_bytes)
    if taken < #alive then
      call('LPUSH', K.suspect, alive[1])
    end
  end
  if large then
    wanted = math.min(wanted, #ids + 64)
  end
  local full, drained = false, false
  for _, list in ipairs(level and { 2 } or ORDER) do
    if has_tombs and #ids < wanted and not full then
      pass_tombs(list)
    end
    -- Tombs make a further round necessary; a few, so that the script stays short.
    for _ = 1, 4 do
      if #ids >= wanted or full then
        break
      end
      local asked = wanted - #ids
      local found = call('LPOP', LISTS[list], ms(asked)) or {}
      local popped = #found
      local alive, taken = take(ids, found, list, max_bytes)
      if taken < #alive then
        full = true
        for at = #alive, taken + 1, -1 do
          call('LPUSH', LISTS[list], alive[at])
        end
      end
      if popped < asked then
        drained = level and not full
        break
      end
    end
  end
  suspected = not level and call('EXISTS', K.suspect) == 1
  more = not drained and call('EXISTS', K.ready0, K.ready1, K.ready2, K.ready3) > 0
end

local bodies, counts = describe(ids)
local broken = {}
for at, id in ipairs(ids) do
  -- What has lost its envelope, by somebody else's hand, cannot be run; nor can what no one could finish.
  if not bodies[at] or bodies[at] == '' or not is_id(id) then
    broken[#broken + 1] = id
    ids[at] = false
  end
end
if #broken > 0 then
  local sound = {}
  for _, id in ipairs(ids) do
    if id then
      sound[#sound + 1] = id
    end
  end
  count('repaired', #broken)
  if sparse then
    strip(broken)
  end
  call('HDEL', K.jobs, unpack(broken))
  ids = sound
  bodies, counts = describe(ids)
end
local number = ms(claim)
if #ids > 0 then
  local tag = worker .. ':' .. number
  local pairs_ = {}
  for at, id in ipairs(ids) do
    pairs_[2 * at - 1], pairs_[2 * at] = id, tag
  end
  if put_all(K.active, pairs_) < #ids then
    -- An id was there more than once, and is handed out once.
    doubled = doubled + leave_doubles(ids)
    bodies, counts = describe(ids)
  end
  call('HSET', K.meta, 'claim', number)
end
count('repaired', doubled)
if woken or (promoted and (more or suspected)) then
  hint()
end
local stale_text = table.concat(stale, ',')
local handed = #ids > 0 and cmsgpack.pack(ids) or ''
if handed == '' and stale_text == '' then
  call('HSET', K.workers, worker, ARGV[2])
else
  call('HSET', K.workers, worker, ARGV[2] .. ':' .. number .. ':' .. stale_text .. ':' .. handed)
end
call('ZADD', K.leases, ms(now + ARGV[3]), worker)
return answer(stale_text, ids, bodies, counts, number, call('ZCARD', K.leases), first_due, more, suspected)
