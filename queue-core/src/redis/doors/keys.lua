-- Unique keys: each is held by at most one job. Enqueue and `return_jobs` acquire a key. `end`
-- releases it, and `admit` releases it if the job holds it only until it starts. The key then
-- passes to the job that is `held` for it, and that job waits in the line.
--
-- `keyed` has the key (16 bytes) of each job with a key, then a letter for the hold ('e' until the
-- job has ended, 's' until it has started, 'w' for a hold time), then the time since which the job
-- waits, or 0 if an operator has taken the key from it. `unique` has the holder of each key: an id,
-- or with a hold time `@UNTIL:DURATION:id`. In the second case `within` has the key by its end.
-- `held` has the job that waits for each key: `DUE:id`. `holds` has these ids by the time at which
-- they are due.
--- include doors/ready

-- Whether a job has become ready because its key is free.
local followed = false

local function key_in(stored)
  return string.sub(stored, 1, 16), string.sub(stored, 17, 17), whole(string.sub(stored, 18))
end

local function store_key_of(id, key, hold)
  put_rare('u', K.keyed, id, key .. hold .. ms(now))
end

-- The job that waits for a key, and when it is due.
local function waiter_for_key(key)
  local due_at, id = string.match(call('HGET', K.held, key) or '', '^(%d+):(.*)$')
  if id and call('HEXISTS', K.jobs, id) == 1 then
    return id, whole(due_at)
  end
end

-- Records that a job waits for a key and is due at this time. Only pages of the dashboard read
-- `holds`. For this reason a changed type of that key stops no script.
local function store_waiter_for_key(key, at, id)
  put_rare('u', K.held, key, ms(at) .. ':' .. id)
  redis.pcall('ZADD', K.holds, ms(at), id)
end

-- The holder of a key, and the end of its hold time if it has one. A key is free if its stored
-- holder could not hold it.
local function holder_of(key)
  local stored = call('HGET', K.unique, key)
  if not stored then
    return nil
  end
  local upto, duration, id = string.match(stored, '^@(%d+):(%d+):(.*)$')
  if upto then
    -- A correct clock never sets a time further ahead than the duration.
    upto = math.min(whole(upto), now + whole(duration))
    if upto > now then
      return id, upto
    end
    return nil
  end
  local own = call('HGET', K.keyed, stored)
  if own and string.sub(own, 1, 16) == key and call('HEXISTS', K.jobs, stored) == 1 and call('HEXISTS', K.records, stored) == 0
    and not call('ZSCORE', K.dead, stored) and waiter_for_key(key) ~= stored then
    return stored
  end
end

-- Lets a job that has not started wait until this time. If the time has passed, the job is pushed
-- to the line.
local function wait_or_push(id, at)
  if at > now then
    store_waiting(K.scheduled, { ms(at), id })
  else
    followed = true
    if push({ id }, false) then
      hint()
    end
  end
end

-- Passes a free key to the job that is held for it. The job then waits as others do.
local function give_key_to_waiter(key)
  local id, due_at = waiter_for_key(key)
  call('HDEL', K.held, key)
  if id then
    redis.pcall('ZREM', K.holds, id)
    record_left({ id }, 'held')
    put_rare('u', K.unique, key, id)
    wait_or_push(id, due_at)
  end
end

-- Gives a job a key for this duration from now on.
local function hold_key_for_duration(key, id, duration)
  put_rare('u', K.unique, key, '@' .. ms(now + duration) .. ':' .. ms(duration) .. ':' .. id)
  call('ZADD', K.within, ms(now + duration), key)
end

-- Releases a key. The job that is held for it gets it.
local function release_key(key)
  call('HDEL', K.unique, key)
  call('ZREM', K.within, key)
  give_key_to_waiter(key)
end

-- Removes at most `items` keys whose hold time has passed. Corrects a hold time that is further
-- ahead than its duration.
local function prune_keys(items)
  local over = call('ZRANGEBYSCORE', K.within, '-inf', ms(now), 'LIMIT', 0, items)
  for _, key in ipairs(over) do
    if not holder_of(key) then
      call('HDEL', K.unique, key)
    end
    call('ZREM', K.within, key)
  end
  for _, key in ipairs(call('ZRANGE', K.within, 0, items - 1, 'REV')) do
    local upto, duration, id = string.match(call('HGET', K.unique, key) or '', '^@(%d+):(%d+):(.*)$')
    if upto and whole(upto) > now + whole(duration) then
      hold_key_for_duration(key, id, whole(duration))
    end
  end
  return #over
end

-- Removes the entry of a held job that no longer exists.
local function return_orphaned_waiter(key)
  redis.pcall('ZREM', K.holds, string.match(call('HGET', K.held, key) or '', '^%d+:(.*)$') or '')
  call('HDEL', K.held, key)
end

-- Releases the keys that these jobs hold, except those with a hold time. `is_deleted`: the jobs
-- have ended, and their entries in `keyed` are deleted. `hold`: only keys with this letter are
-- released.
local function release_keys(ids, is_deleted, hold)
  if #ids == 0 then
    return
  end
  local stored, keys, mine = call('HMGET', K.keyed, unpack(ids)), {}, {}
  for at = 1, #ids do
    if stored[at] and (not hold or string.sub(stored[at], 17, 17) == hold) then
      keys[#keys + 1], mine[#mine + 1] = string.sub(stored[at], 1, 16), ids[at]
    end
  end
  if #keys == 0 then
    return
  end
  if is_deleted then
    call('HDEL', K.keyed, unpack(mine))
  end
  local holders, free = call('HMGET', K.unique, unpack(keys)), {}
  for at = 1, #keys do
    if holders[at] == mine[at] then
      free[#free + 1] = keys[at]
    end
  end
  if #free > 0 then
    call('HDEL', K.unique, unpack(free))
    if call('EXISTS', K.held) == 1 then
      for _, key in ipairs(free) do
        give_key_to_waiter(key)
      end
    end
  end
end

-- Acquires the key of a job that returns to a waiting state. Returns the job that has acquired it
-- meanwhile.
local function reacquire_key(id)
  local stored = call('HGET', K.keyed, id)
  if not stored then
    return nil
  end
  local key, hold = key_in(stored)
  if hold == 'w' then
    return nil
  end
  store_key_of(id, key, hold)
  local other, upto = holder_of(key)
  if not other then
    put_rare('u', K.unique, key, id)
  elseif other ~= id and not upto then
    -- The key with a hold time belongs to another declaration. It does not prevent a later run of
    -- this job.
    return other
  end
end

-- The text form of an id.
local function displayed_id(id)
  if byte(id) == 61 then -- '='
    return string.sub(id, 2)
  end
  local digits = string.gsub(id, '.', function(c)
    return string.format('%02x', byte(c))
  end)
  return table.concat({ string.sub(digits, 1, 8), string.sub(digits, 9, 12), string.sub(digits, 13, 16), string.sub(digits, 17, 20), string.sub(digits, 21) }, '-')
end
