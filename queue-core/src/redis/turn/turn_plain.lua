-- Runs one turn of a lane whose queue has no rare features: at most the bits `PLAIN_TURN` of
-- `script/bits.rs`, for large jobs and jobs that have failed. Its endings are acks that keep
-- nothing. `turn.lua` serves all other turns.
-- ARGV[1]    lane   the name of the lane
-- ARGV[2]    seq    the number of the turn
-- ARGV[3]    lease  the duration of the lease from now on, in ms
-- ARGV[4]    claim  the number of wanted jobs
-- ARGV[5..]  acks   groups, to the end: claim, the number of acks, and their ids
-- Returns: that of `turn.lua`, up to the attempts. If `turn.lua` is needed, it returns nothing and
--   writes nothing. That is the case if:
--     the queue has another bit, or a job is due;
--     the lane is not known, or the turn is not its next;
--     an ending is stale; or
--     another program has damaged a job that would be claimed.
--- include script/prelude, script/clock

local head = call('HMGET', K.meta, 'schema', 'bits', 'due', 'claim')
local bits, due = head[2], whole(head[3] or '')
if due <= now or not bits or string.find(bits, C.not_plain_turn) or head[1] and head[1] ~= C.schema then
  return false
end
--- include script/has
local lane, seq = ARGV[1], ARGV[2]
local entry = call('HGET', K.lanes, lane)
if not entry or tonumber(string.match(entry, '^%d+') or '') ~= seq - 1 then
  return false
end

-- The acks, and for each group of acks its receipt and the position at which it ends.
local ARGV, acked, groups, done, from = ARGV, {}, {}, 0, 5
while from < #ARGV do
  local behind = from + 1 + ARGV[from + 1]
  for at = from + 2, behind do
    done = done + 1
    acked[done] = ARGV[at]
  end
  groups[#groups + 1] = { lane .. ':' .. ARGV[from], done }
  from = behind + 1
end

-- The claimed jobs, and whether more jobs wait. Large jobs are bounded by their bytes.
local large, failed = has('l'), has('f')
local wanted = large and math.min(ARGV[4], 64) or tonumber(ARGV[4])
local ids = call('LRANGE', K.ready2, '0', ms(wanted))
local n, bytes = math.min(#ids, wanted), 0
for at = 1, large and n or 0 do
  bytes = bytes + call('HSTRLEN', K.jobs, ids[at])
  if bytes > C.max_bytes and at > 1 then
    n = at - 1
    break
  end
end
local waits = #ids > n and 1 or 0
for at = #ids, n + 1, -1 do
  ids[at] = nil
end

-- Everything is read before anything is written. An id that is active or has no envelope was pushed
-- by another program.
local asked = { unpack(acked) }
for at = 1, n do
  asked[done + at] = ids[at]
end
local active = done + n > 0 and call('HMGET', K.active, unpack(asked))
from = 1
for _, group in ipairs(groups) do
  local receipt = group[1]
  for at = from, group[2] do
    if active[at] ~= receipt then
      return false
    end
  end
  from = group[2] + 1
end
local bodies = n > 0 and call('HMGET', K.jobs, unpack(ids)) or {}
for at = 1, n do
  local id, body = ids[at], bodies[at]
  if active[done + at] or not body or body == '' or not is_id(id) then
    return false
  end
end

if done > 0 then
  call('HDEL', K.active, unpack(acked))
  call('HDEL', K.jobs, unpack(acked))
  if failed then
    call('HDEL', K.attempts, unpack(acked))
    call('HDEL', K.errors, unpack(acked))
  end
  -- Ids that applications have chosen are remembered for a while.
  local given = {}
  for _, id in ipairs(acked) do
    if byte(id) == 61 then -- '='
      given[#given + 1], given[#given + 2] = ms(now), id
    end
  end
  if #given > 0 then
    call('ZADD', K.remembered, unpack(given))
  end
  count('done', done)
end

local number, attempts = '0', failed and {} or nil
if n > 0 then
  local last_number = whole(head[4])
  -- A number near the largest one would no longer grow.
  number = ms(math.max(last_number < FOREVER / 4 and last_number + 1 or 0, now))
  local receipt, pairs_ = lane .. ':' .. number, {}
  for at = 1, n do
    pairs_[2 * at - 1], pairs_[2 * at] = ids[at], receipt
  end
  call('LTRIM', K.ready2, ms(n), '-1')
  local doubled = n - call('HSET', K.active, ids[1], LONG, unpack(pairs_))
  call('HSET', K.meta, 'claim', number)
  if doubled > 0 then
    -- A duplicate id is returned once.
    local seen, left = {}, 0
    for at = 1, n do
      local id, body = ids[at], bodies[at]
      ids[at], bodies[at] = nil, nil
      if not seen[id] then
        left = left + 1
        seen[id], ids[left], bodies[left] = true, id, body
      end
    end
    count('repaired', doubled)
  end
  attempts = failed and call('HMGET', K.attempts, unpack(ids)) or nil
end
call('HSET', K.lanes, lane, n > 0 and seq .. ':' .. number .. '::' .. cmsgpack.pack(ids) or seq)
call('ZADD', K.leases, ms(now + ARGV[3]), lane)
local next_due = due < FOREVER and ms(whole(due * 1000 - micros)) or ''
return { ids, bodies, number, ms(micros), waits, next_due, call('ZCARD', K.leases), bits, attempts }
