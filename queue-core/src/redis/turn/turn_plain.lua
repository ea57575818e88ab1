-- R2 to R4 for a queue that is plain, and acks: does with a few keys what `turn.lua` would do with all.
-- ARGV: worker, seq, lease, claim, groups of acks: claim, n ids. Where jobs are kept, the last keys are given, and it is worker, seq,
--   lease, claim, most kept, most bytes kept, and groups as those of `turn.lua`.
-- Answers: ids, envelopes, claim number, now, more, time to the next that is due or '', workers, and where jobs have failed their
-- attempts, and 1 where jobs are kept. With nothing, and nothing has changed, where it takes `turn.lua`: the queue is not known to be plain, or is of a newer
-- schema; a job that has waited is due; jobs have failed or are kept, and the keys for that are not given; the lane is not known, or the turn is
-- not its next; an ending is stale.

-- Most bytes of the envelopes of one answer; a single larger one travels alone.
local MAX_BYTES = 1048576

local meta = call('HMGET', K.meta, 'schema', 'plain', 'claim', 'failed', 'large', 'kept')
local plain_until, failed, large, has_kept = whole(meta[2] or ''), meta[4] == '1', meta[5] == '1', meta[6] == '1'
if plain_until <= now or failed and not K.errors or has_kept and not K.records or meta[1] and meta[1] ~= SCHEMA then
  return false
end
local worker, seq = ARGV[1], ARGV[2]
local entry = call('HGET', K.workers, worker)
if not entry or tonumber(string.match(entry, '^%d+')) ~= seq - 1 then
  return false
end

-- Only those jobs have anything else that have failed.
local sparse = failed

--- if K.ended: tools, known, ended

-- --- Finishes: nothing is believed but the tag, and nothing written before all of them are looked at. ---

local acked, n_acked, given = {}, 0, {}
-- Of those nothing is kept; and the groups of which all are.
local gone, keeps = K.ended and {} or acked, {}
local from = K.ended and 7 or 5
while from < #ARGV do
  local tag, keep_ms = worker .. ':' .. ARGV[from], ''
  if K.ended then
    from = from + 1
    keep_ms = ARGV[from]
  end
  local first, to = from + 2, from + 1 + ARGV[from + 1]
  local tags = call('HMGET', K.active, unpack(ARGV, first, to))
  for at = 1, #tags do
    if tags[at] ~= tag then
      return false
    end
    local id = ARGV[from + 1 + at]
    n_acked = n_acked + 1
    acked[n_acked] = id
    if byte(id) == 61 then -- '='
      given[#given + 1], given[#given + 2] = ms(now), id
    end
    if K.ended and keep_ms == '' then
      gone[#gone + 1] = id
    end
  end
  from = to + 1
  if K.ended then
    local results = { unpack(ARGV, from + 1, from + ARGV[from]) }
    from = from + 1 + #results
    if keep_ms ~= '' then
      keeps[#keeps + 1] = { ids = { unpack(ARGV, first, to) }, ms = keep_ms, results = results, sizes = ARGV[from] }
      from = from + 1
    end
  end
end

-- Taken before anything is written: where another program has made something else of the list, the script stops here, and no finish is
-- carried out without an answer. Nor is a job that ends just now one that may be handed out.
local wanted = tonumber(ARGV[4])
if large then
  wanted = math.min(wanted, 64)
end
local ids = wanted > 0 and call('LPOP', K.ready2, large and ms(wanted) or ARGV[4]) or {}
-- Who got less than he asked for has taken the last.
local more = #ids == wanted and call('EXISTS', K.ready2) or 0
local doubled = leave_those_in(K.active, ids)
count('repaired', doubled and #doubled or 0)
doubled = has_kept and leave_those_in(K.records, ids)

if #acked > 0 then
  if #given > 0 then
    call('ZADD', K.tombstones, unpack(given))
  end
  call('HDEL', K.active, unpack(acked))
  if #gone > 0 then
    call('HDEL', K.jobs, unpack(gone))
    if failed then
      call('HDEL', K.attempts, unpack(gone))
      call('HDEL', K.errors, unpack(gone))
    end
  end
  has_kept = has_kept or #keeps > 0
  for _, keep in ipairs(keeps) do
    keep_ended(keep.ids, 'done', keep.ms, sizes_of(keep.sizes), keep.results)
  end
  if #keeps > 0 then
    trim_ended(2 * (#acked - #gone), tonumber(ARGV[5]), tonumber(ARGV[6]))
  end
  count('done', #acked)
end

-- --- Claim. ---

count('repaired', doubled and #doubled or 0)
local bytes = 0
for at = 1, large and #ids or 0 do
  local size = call('HSTRLEN', K.jobs, ids[at])
  if bytes > 0 and bytes + size > MAX_BYTES then
    -- What does not fit goes back to where it was.
    for _ = at, #ids do
      call('LPUSH', K.ready2, table.remove(ids))
    end
    more = 1
    break
  end
  bytes = bytes + size
end
local bodies = #ids > 0 and call('HMGET', K.jobs, unpack(ids)) or {}
local attempts = failed and (#ids > 0 and call('HMGET', K.attempts, unpack(ids)) or {}) or nil
for at = #ids, 1, -1 do
  -- What has lost its envelope, by somebody else's hand, cannot be run; nor can what no one could finish.
  local body = bodies[at]
  if not body or body == '' or not is_id(ids[at]) then
    call('HDEL', K.jobs, ids[at])
    if failed then
      call('HDEL', K.attempts, ids[at])
      call('HDEL', K.errors, ids[at])
      table.remove(attempts, at)
    end
    count('repaired', 1)
    table.remove(ids, at)
    table.remove(bodies, at)
  end
end

local number = '0'
if #ids > 0 then
  local last_number = whole(meta[3])
  -- A number near the end of all numbers would not grow any more.
  number = ms(math.max(last_number < FOREVER / 4 and last_number + 1 or 0, now))
  local tag, pairs_ = worker .. ':' .. number, {}
  for at = 1, #ids do
    pairs_[2 * at - 1], pairs_[2 * at] = ids[at], tag
  end
  if put_all(K.active, pairs_) < #ids then
    -- An id was there more than once, and is handed out once.
    count('repaired', leave_doubles(ids))
    bodies = call('HMGET', K.jobs, unpack(ids))
    attempts = failed and call('HMGET', K.attempts, unpack(ids)) or nil
  end
  call('HSET', K.meta, 'claim', number)
  call('HSET', K.workers, worker, seq .. ':' .. number .. '::' .. cmsgpack.pack(ids))
else
  call('HSET', K.workers, worker, seq)
end
call('ZADD', K.leases, ms(now + ARGV[3]), worker)
local next_due = plain_until < FOREVER and ms(whole(plain_until * 1000 - micros)) or ''
local answer = { ids, bodies, number, ms(micros), more, next_due, call('ZCARD', K.leases), attempts }
if has_kept then
  answer[8], answer[9] = attempts or false, 1
end
return answer
