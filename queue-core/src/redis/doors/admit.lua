-- admit: to active. Everything that is claimed passes it: jobs at the head of `ready`, suspects,
-- parked and promoted ones. It looks before it takes, so that nothing is put back.
--
-- Inputs: `wanted`, how many jobs may be claimed in all; `max_bytes`, how many bytes of envelopes,
-- if jobs are large; and `ids`, which are admitted already.
--- include doors/end, doors/aging

local bytes, full, doubled = 0, false, 0

-- Which of some ids lie under a tombstone in a list, and the tombstones as they are stored.
local function tombstones_of(found, list)
  local tombstones = {}
  for at, id in ipairs(found) do
    tombstones[at] = id .. list
  end
  return call('HMGET', K.tombstones, unpack(tombstones)), tombstones
end

-- Admits jobs that were found, in a list or parked: says how many of them are to be taken away from
-- there. An id that runs already, or whose job has ended and is kept, was put there by another
-- program, and would run twice.
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

-- Leaves an id in a list once; gives how many there were too many.
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

-- Envelopes of jobs, and their counts: none of what no job has.
local function describe(ids)
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
      -- The number, and how long the job may have run at the last.
      local number, ran = string.match(crash or '', '^(%d+):%d+(:?%d*)$')
      crashes[at] = crash and (number and number .. ran or string.match(crash, '^%d+')) or false
    end
  end
  if has('z') then
    snoozes = call('HMGET', K.snoozes, unpack(ids))
  end
  return bodies, attempts, crashes, snoozes
end

-- The last step: stamps what was admitted with a receipt. What has lost its envelope, by somebody
-- else's hand, cannot be run; nor can what no one could finish; and an id that was there more than
-- once is handed out once.
local function stamp(lane, claim)
  if has('o') and #ids > 0 then
    stop_aging(ids)
  end
  local bodies, attempts, crashes, snoozes = describe(ids)
  local broken = {}
  for at = #ids, 1, -1 do
    if not bodies[at] or bodies[at] == '' or not is_id(ids[at]) then
      broken[#broken + 1] = table.remove(ids, at)
    end
  end
  if #broken > 0 then
    count('repaired', #broken)
    if has('g') then
      give_slots_back(broken)
    end
    end_gone(broken)
    bodies, attempts, crashes, snoozes = describe(ids)
  end
  if #ids > 0 then
    local receipt, pairs_ = lane .. ':' .. claim, {}
    for at = 1, #ids do
      pairs_[2 * at - 1], pairs_[2 * at] = ids[at], receipt
    end
    if put_all(K.active, pairs_) < #ids then
      doubled = doubled + remove_duplicates(ids)
      bodies, attempts, crashes, snoozes = describe(ids)
    end
    call('HSET', K.meta, 'claim', claim)
    entered(ids, 'active')
    if has('u') then
      give_keys_back(ids, false, 's')
    end
  end
  count('repaired', doubled)
  return bodies, attempts, crashes, snoozes
end
