-- Admits waiting jobs to `active`. Every claimed job passes here: jobs at the head of `ready`,
-- suspects, parked and promoted jobs. Conditions are checked before an id is taken, so no job has
-- to be put back.
--
-- Inputs: `wanted`, the total number of jobs that may be claimed; `max_bytes`, the largest number
-- of bytes of envelopes if jobs are large; and `ids`, the jobs that are admitted already.
--- include doors/end, doors/aging

local bytes, full, doubled = 0, false, 0

-- Which of some ids have a tombstone in a list, and the tombstones as they are stored.
local function tombstones_of(found, list)
  local tombstones = {}
  for at, id in ipairs(found) do
    tombstones[at] = id .. list
  end
  return call('HMGET', K.tombstones, unpack(tombstones)), tombstones
end

-- Admits jobs that were found in a list or parked. Returns how many of them the caller has to
-- remove there. An id that is active already, or whose job has ended and is kept, was pushed by
-- another program. It is skipped, so that the job does not run twice.
local function admit(found, list)
  if #found == 0 then
    return 0
  end
  local running = call('HMGET', K.active, unpack(found))
  local ended = has('k') and call('HMGET', K.records, unpack(found))
  local is_tombstone, tombstones, passed_tombstones = nil, nil, {}
  if list and has('t') then
    is_tombstone, tombstones = tombstones_of(found, list)
  end
  local passed, n = 0, #ids
  for at = 1, #found do
    local id = found[at]
    local twice = running[at] or ended and ended[at]
    if n >= wanted then
      break
    elseif is_tombstone and is_tombstone[at] then
      passed_tombstones[#passed_tombstones + 1] = tombstones[at]
    elseif twice then
      doubled = doubled + 1
    else
      if max_bytes then
        local size = call('HSTRLEN', K.jobs, id)
        if bytes > 0 and bytes + size > max_bytes then
          full = true
          break
        end
        bytes = bytes + size
      end
      n = n + 1
      ids[n] = id
    end
    passed = at
  end
  if #passed_tombstones > 0 then
    call('HDEL', K.tombstones, unpack(passed_tombstones))
  end
  return passed
end

-- Removes duplicate ids from a list. Returns their number.
local function remove_duplicates(ids)
  local seen, left, all = {}, 0, #ids
  for at = 1, all do
    local id = ids[at]
    left = left + (seen[id] and 1 or 0)
    ids[at] = nil
    if not seen[id] then
      seen[id], ids[at - left] = true, id
    end
  end
  return left
end

-- The envelopes and counters of jobs. Counters that no job of the queue has are not read.
local function read_envelopes_and_counts(ids)
  if #ids == 0 then
    return {}, {}, {}, {}
  end
  local bodies, attempts, crashes, snoozes = call('HMGET', K.jobs, unpack(ids)), {}, {}, {}
  if has('f') then
    attempts = call('HMGET', K.attempts, unpack(ids))
  end
  if has('c') then
    crashes = call('HMGET', K.crashes, unpack(ids))
    for at, crash in ipairs(crashes) do
      -- The number of crashes, and for how long the job may have run the last time.
      local number, ran = string.match(crash or '', '^(%d+):%d+(:?%d*)$')
      crashes[at] = crash and (number and number .. ran or string.match(crash, '^%d+')) or false
    end
  end
  if has('z') then
    snoozes = call('HMGET', K.snoozes, unpack(ids))
  end
  return bodies, attempts, crashes, snoozes
end

-- The last step: stamps the admitted jobs with a receipt. A job whose envelope another program has
-- deleted cannot run. An invalid id could not be ended. A duplicate id is returned once.
local function give_receipts(lane, claim)
  if has('o') and #ids > 0 then
    stop_aging(ids)
  end
  local bodies, attempts, crashes, snoozes = read_envelopes_and_counts(ids)
  local broken = {}
  for at = #ids, 1, -1 do
    if not bodies[at] or bodies[at] == '' or not is_id(ids[at]) then
      broken[#broken + 1] = table.remove(ids, at)
    end
  end
  if #broken > 0 then
    count('repaired', #broken)
    if has('g') then
      release_slots(broken)
    end
    end_deleted(broken)
    bodies, attempts, crashes, snoozes = read_envelopes_and_counts(ids)
  end
  if #ids > 0 then
    local receipt, pairs_ = lane .. ':' .. claim, {}
    for at = 1, #ids do
      pairs_[2 * at - 1], pairs_[2 * at] = ids[at], receipt
    end
    if set_fields(K.active, pairs_) < #ids then
      doubled = doubled + remove_duplicates(ids)
      bodies, attempts, crashes, snoozes = read_envelopes_and_counts(ids)
    end
    call('HSET', K.meta, 'claim', claim)
    record_entered(ids, 'active')
    if has('u') then
      release_keys(ids, false, 's')
    end
  end
  count('repaired', doubled)
  return bodies, attempts, crashes, snoozes
end
