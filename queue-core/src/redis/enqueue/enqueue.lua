-- R12, any jobs. ARGV after what `sequence.lua` reads: 'large' or '', groups until the end:
--   'r', list, n, then n pairs of id and envelope: made ids, ready now
--   's', n, then n times id, envelope, priority, delay or '', time or '': made ids, for later
--   'g', n, then n times id, envelope, priority, delay or '', time or '', digest: given ids
-- Answers with nil when everything was stored, or else a digit per job, in the order of the groups.

if ARGV[3] == 'large' then
  call('HSET', K.meta, 'large', '1')
end

local answers = nil
local total, enqueued = 0, 0
local woken = false
local later, first_due = {}, math.huge
local plain = true

-- Once, before something out of the ordinary is stored.
local function not_plain()
  if plain then
    plain = false
    note_plain(nil)
  end
end

local function due(delay, at)
  if delay ~= '' then
    return after(delay)
  end
  return at ~= '' and tonumber(at) or now
end

local function place(id, priority, at)
  if priority ~= '2' then
    not_plain()
    put(K.priority, id, priority)
    sparse, has_priorities = true, true
  end
  if at > now then
    first_due = math.min(first_due, at)
    table.insert(later, ms(at))
    table.insert(later, id)
  else
    woken = push({ id }, false) or woken
  end
end

local i = 4
while i <= #ARGV do
  local kind = ARGV[i]
  if kind == 'r' then
    local list, n = tonumber(ARGV[i + 1]), tonumber(ARGV[i + 2])
    local from, to = i + 3, i + 2 + 2 * n
    call('HSET', K.jobs, ARGV[from], LONG, unpack(ARGV, from, to))
    local ids = {}
    for at = from, to, 2 do
      ids[#ids + 1] = ARGV[at]
    end
    if list ~= 2 then
      not_plain()
      local pairs_ = {}
      for _, id in ipairs(ids) do
        table.insert(pairs_, id)
        table.insert(pairs_, ARGV[i + 1])
      end
      put_all(K.priority, pairs_)
    end
    woken = call('RPUSH', LISTS[list], unpack(ids)) == n or woken
    total, enqueued = total + n, enqueued + n
    i = to + 1
  elseif kind == 's' then
    local n = tonumber(ARGV[i + 1])
    local bodies = {}
    for at = i + 2, i + 1 + 5 * n, 5 do
      table.insert(bodies, ARGV[at])
      table.insert(bodies, ARGV[at + 1])
      place(ARGV[at], ARGV[at + 2], due(ARGV[at + 3], ARGV[at + 4]))
    end
    put_all(K.jobs, bodies)
    total, enqueued = total + n, enqueued + n
    i = i + 2 + 5 * n
  else
    local n = tonumber(ARGV[i + 1])
    answers = answers or {}
    for at = i + 2, i + 1 + 6 * n, 6 do
      local id, digest = ARGV[at], ARGV[at + 5]
      local record = call('HGET', K.records, id)
      local state = state_of(record)
      if state == 'cancelled' or state == 'expired' then
        free_id(id)
      end
      local known = call('HGET', K.given, id)
      if not known and not record and call('HEXISTS', K.jobs, id) == 1 then
        -- Its digest was lost to somebody else's hand. A second job of this id would be one too many.
        known = digest
        call('HSET', K.given, id, digest)
      end
      total = total + 1
      if not known then
        -- The record of an earlier job gives way: it must not be taken for this one's.
        if record then
          forget_record(id, record)
        end
        call('HSET', K.jobs, id, ARGV[at + 1])
        call('HSET', K.given, id, digest)
        place(id, ARGV[at + 2], due(ARGV[at + 3], ARGV[at + 4]))
        enqueued = enqueued + 1
        answers[total] = 0
      else
        answers[total] = known == digest and 1 or 2
      end
    end
    i = i + 2 + 6 * n
  end
end

if plain and first_due < math.huge then
  plain_at_most_until(first_due)
end
wait(K.scheduled, later)
if woken then
  hint()
end
count('enqueued', enqueued)
if enqueued == total then
  call('HSET', K.producers, ARGV[1], ARGV[2])
  return false
end
-- A digit per job.
for at = 1, total do
  answers[at] = answers[at] or 0
end
local exceptional = table.concat(answers)
call('HSET', K.producers, ARGV[1], ARGV[2] .. ':' .. exceptional)
return exceptional
