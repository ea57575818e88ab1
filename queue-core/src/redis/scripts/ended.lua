-- Jobs that ended and are kept. `ended` is a list of `until:id` in the order in which they ended; `records` has what is
-- known of each besides its envelope, which stays in `jobs`.

local function state_of(record)
  return (unpacked(record) or {}).s
end

-- Takes the record of an id away, and its bytes out of the count. The list keeps its line until its turn comes.
local function forget_record(id, record)
  local kept = unpacked(record) or {}
  call('HDEL', K.records, id)
  count('.kept_bytes', -whole(kept.b))
  if type(kept.s) == 'string' then
    count('.kept:' .. kept.s, -1)
  end
end

-- Everything that is known of a live job besides its envelope, gone.
local function strip(ids)
  if sparse then
    for _, key in ipairs({ K.attempts, K.snoozes, K.crashes, K.errors, K.priority }) do
      many('HDEL', key, ids)
    end
  end
end

local function keep_ended(id, state, keep_ms, note, result)
  local bytes = call('HSTRLEN', K.jobs, id) + #(result or '')
  local record = { s = state, e = ms(now), u = ms(now + keep_ms), b = bytes, n = note, r = result }
  if sparse then
    record.a = call('HGET', K.attempts, id) or nil
    record.z = call('HGET', K.snoozes, id) or nil
    record.p = call('HGET', K.priority, id) or nil
    record.f = call('HGET', K.errors, id) or nil
  end
  call('HSET', K.records, id, cmsgpack.pack(record))
  call('RPUSH', K.ended, record.u .. ':' .. id)
  count('.kept_bytes', bytes)
  count('.kept:' .. state, 1)
  strip({ id })
end

-- Removes at most `items` of the oldest kept jobs, while they are past their time or over a limit.
local function trim_ended(items, max_count, max_bytes)
  local removed = 0
  local length = call('LLEN', K.ended)
  while removed < items and length > 0 do
    local line = call('LINDEX', K.ended, 0)
    local upto, id = string.match(line, '^(%d+):(.*)$')
    local bytes = whole(call('HGET', K.counters, '.kept_bytes'))
    if upto and tonumber(upto) > now and length <= max_count and bytes <= max_bytes then
      break
    end
    call('LPOP', K.ended)
    length = length - 1
    removed = removed + 1
    local record = upto and call('HGET', K.records, id)
    -- A later job of the same given id has a record of its own, and a line of its own.
    if record and (unpacked(record) or { u = upto }).u == upto then
      forget_record(id, record)
      call('HDEL', K.jobs, id)
    end
  end
  return removed
end

-- One more failure in a job's history; the oldest go first.
local function add_failure(id, text)
  local failures = unpacked_pairs(call('HGET', K.errors, id))
  table.insert(failures, { ms(now), text })
  while #failures > 10 do
    table.remove(failures, 1)
  end
  call('HSET', K.errors, id, cmsgpack.pack(failures))
  sparse = true
end

local function bury(id, reason)
  call('ZADD', K.dead, ms(now), id)
  call('HSET', K.notes, id, reason)
  count('.dead_bytes', call('HSTRLEN', K.jobs, id))
  count('dead', 1)
end

-- Takes a dead job out of the set and the count; its other parts stay.
local function exhume(id)
  call('ZREM', K.dead, id)
  call('HDEL', K.notes, id)
  count('.dead_bytes', -call('HSTRLEN', K.jobs, id))
end

-- A given id may be used again.
local function free_id(id)
  if string.sub(id, 1, 1) == '=' then
    call('HDEL', K.given, id)
    call('ZREM', K.tombstones, id)
  end
end
