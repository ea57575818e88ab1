-- Keys: at most one job holds each. Enqueue and `back` take a key; `admit`, for a job that holds it
-- until it starts, and `end` give it back. Then the job gets it that is `held` for it, and waits in
-- the line.
--
-- `keyed` has of each job with a key: the key (16 bytes), a letter for how long it is held ('e'
-- until the job has ended, 's' until it has started, 'w' for a time), and since when it waits, or 0
-- if a person has taken the key from it. `unique` has who holds a key: an id, or for a time
-- `@UNTIL:DURATION:id`; then `within` has the key by its end. `held` has who waits for a key:
-- `DUE:id`, and `holds` has these ids by the time at which they are due.
--- include doors/ready

-- Whether a job came into the line because its key was free.
local followed = false

local function key_in(stored)
  return string.sub(stored, 1, 16), string.sub(stored, 17, 17), whole(string.sub(stored, 18))
end

local function note_key(id, key, hold)
  put_rare('u', K.keyed, id, key .. hold .. ms(now))
end

-- Who waits for a key, and when that one is due.
local function next_for(key)
  local due_at, id = string.match(call('HGET', K.held, key) or '', '^(%d+):(.*)$')
  if id and call('HEXISTS', K.jobs, id) == 1 then
    return id, whole(due_at)
  end
end

-- A job waits for a key, and is due at this time. Pages alone read `holds`: whatever another
-- program has made of it stops no script.
local function hold_for(key, at, id)
  put_rare('u', K.held, key, ms(at) .. ':' .. id)
  redis.pcall('ZADD', K.holds, ms(at), id)
end

-- Who holds a key, and until when if it is for a time. What is held by no job that could hold it is
-- free.
local function holder_of(key)
  local stored = call('HGET', K.unique, key)
  if not stored then
    return nil
  end
  local upto, duration, id = string.match(stored, '^@(%d+):(%d+):(.*)$')
  if upto then
    -- No clock could have set a time beyond its duration.
    upto = math.min(whole(upto), now + whole(duration))
    if upto > now then
      return id, upto
    end
    return nil
  end
  local own = call('HGET', K.keyed, stored)
  if own and string.sub(own, 1, 16) == key and call('HEXISTS', K.jobs, stored) == 1 and call('HEXISTS', K.records, stored) == 0
    and not call('ZSCORE', K.dead, stored) and next_for(key) ~= stored then
    return stored
  end
end

-- A job that has not started waits until this time, or in the line if that is over.
local function wait_until(id, at)
  if at > now then
    wait(K.scheduled, { ms(at), id })
  else
    followed = true
    if push({ id }, false) then
      hint()
    end
  end
end

-- A job that is held gets its key, which is free, and waits as others do.
local function follow(key)
  local id, due_at = next_for(key)
  call('HDEL', K.held, key)
  if id then
    redis.pcall('ZREM', K.holds, id)
    left({ id }, 'held')
    put_rare('u', K.unique, key, id)
    wait_until(id, due_at)
  end
end

-- A job holds a key for this duration from now on.
local function hold_within(key, id, duration)
  put_rare('u', K.unique, key, '@' .. ms(now + duration) .. ':' .. ms(duration) .. ':' .. id)
  call('ZADD', K.within, ms(now + duration), key)
end

-- Nobody holds a key any more, but the job that was held for it.
local function free_key(key)
  call('HDEL', K.unique, key)
  call('ZREM', K.within, key)
  follow(key)
end

-- Removes at most so many of the keys that were held for a time which is over, and brings a time
-- back that no clock could have set.
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
      hold_within(key, id, whole(duration))
    end
  end
  return #over
end

-- What is held for a key whose job is not there waits no longer.
local function drop_held(key)
  redis.pcall('ZREM', K.holds, string.match(call('HGET', K.held, key) or '', '^%d+:(.*)$') or '')
  call('HDEL', K.held, key)
end

-- Jobs give their keys back, if they hold them and not for a time. `gone`: they have ended, and
-- nothing is noted of their keys any more. With a letter: those alone that hold them so long.
local function give_keys_back(ids, gone, hold)
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
  if gone then
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
        follow(key)
      end
    end
  end
end

-- Takes the key of a job that comes back to wait. Gives the job that has it meanwhile.
local function younger(id)
  local stored = call('HGET', K.keyed, id)
  if not stored then
    return nil
  end
  local key, hold = key_in(stored)
  if hold == 'w' then
    return nil
  end
  note_key(id, key, hold)
  local other, upto = holder_of(key)
  if not other then
    put_rare('u', K.unique, key, id)
  elseif other ~= id and not upto then
    -- A key that is held for a time is that of another declaration: it keeps nobody from being run
    -- again.
    return other
  end
end

-- An id as people read it.
local function text_of(id)
  if byte(id) == 61 then -- '='
    return string.sub(id, 2)
  end
  local digits = string.gsub(id, '.', function(c)
    return string.format('%02x', byte(c))
  end)
  return table.concat({ string.sub(digits, 1, 8), string.sub(digits, 9, 12), string.sub(digits, 13, 16), string.sub(digits, 17, 20), string.sub(digits, 21) }, '-')
end
