-- Housekeeping of the feature bits: checks the keys of all features and stores the bits again. No
-- other script clears a bit, except that the end of a pause clears the bit of pauses.
--- include script/bits, script/first_due

-- The bits that are needed. Whether a large job exists could be found only by reading all jobs, so
-- that bit remains set while the queue has jobs.
local function needed_bits()
  local needed = has('l') and call('EXISTS', K.jobs) == 1 and 'l' or ''
  local fields = call('HMGET', K.meta, 'paused', 'aging', 'followed')
  if fields[1] == '1' then
    needed = needed .. 'h'
  end
  if fields[2] then
    needed = needed .. 'op'
  end
  local followed = whole(fields[3] or '')
  if followed > now and followed <= now + C.followed_ms or call('EXISTS', K.transitions) == 1 then
    needed = needed .. 'v'
  end
  if call('EXISTS', K.attempts, K.errors, K.records, K.ended, K.priority, K.ready0, K.ready1, K.ready3, K.crashes, K.suspect, K.snoozes,
    K.returned, K.tombstones, K.parked, K.unreadable, K.keyed, K.unique, K.held, K.within, K.ticked, K.watched, K.grouped, K.line, K.holders, K.progress,
    K.logs, K.tags, K.chains, K.tat, K.costs, K.rising, K.risen, K.resumes, K.rested) == 0 then
    return needed
  end
  local function add(bit, ...)
    needed = call('EXISTS', ...) > 0 and needed .. bit or needed
  end
  add('f', K.attempts, K.errors)
  add('k', K.records, K.ended, K.lapsing)
  if not fields[2] then
    add('p', K.priority, K.ready0, K.ready1, K.ready3, K.rising, K.risen)
    add('o', K.rising, K.risen)
  end
  -- The crashes of dead jobs are kept for operators only.
  local crashed = call('HLEN', K.crashes)
  if crashed > 0 and crashed > whole(call('HGET', K.counters, '.dead_crashed') or '') then
    needed = needed .. 'c'
  else
    add('c', K.suspect, K.doubts)
  end
  add('z', K.snoozes, K.returned)
  add('t', K.tombstones)
  add('a', K.parked, K.unreadable)
  add('u', K.keyed, K.unique, K.held, K.within)
  add('s', K.ticked)
  add('w', K.watched)
  add('g', K.grouped, K.line, K.holders, K.rested)
  add('j', K.progress, K.logs)
  add('e', K.resumes)
  add('i', K.tags)
  if call('EXISTS', K.chains, K.tat, K.costs) > 0 or call('ZRANGEBYLEX', K.holders, '[\255', '+', 'LIMIT', 0, 1)[1] then
    needed = needed .. 'm'
  end
  return needed
end

-- The bits that a queue needs but does not have.
local function missing_bits()
  local missing = ''
  for bit in string.gmatch(needed_bits(), '.') do
    missing = has(bit) and missing or missing .. bit
  end
  return missing
end

-- Nothing is written for a queue without a registration.
local function recount_bits()
  if not head[1] then
    return
  end
  local before = bits
  bits = needed_bits()
  local next_due = first_due()
  if bits ~= before or due ~= next_due then
    due = next_due
    call('HSET', K.meta, 'bits', bits, 'due', ms(due))
  end
end
