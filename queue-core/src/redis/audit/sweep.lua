-- Runs one round of housekeeping.
-- ARGV[1]   items       the most items of a kind to remove; 0: remove nothing, only report
--                       overdue items
-- ARGV[2]   producers   the age at which producers are removed, in ms
-- ARGV[3]   remembered  the age at which remembered ids are removed, in ms
-- ARGV[4]   most_ids    the most remembered ids
-- ARGV[5]   dead        the age at which dead jobs are removed, in ms
-- ARGV[6]   dead_bytes  the most bytes of dead jobs
-- ARGV[7]   kept        the most kept jobs
-- ARGV[8]   kept_bytes  the most bytes of kept jobs
-- ARGV[9]   sweeper     the number of the sweeper, or 0
-- ARGV[10]  topic       '1' for the address of a topic. Its sweeper also trims the log, and always
--                       excludes others.
-- Returns: nothing if another sweeper is active; or the number of:
--     producers, remembered ids, dead jobs, ended jobs, keys;
--     ids of the buried jobs (a list);
--     rates, groups, marks of waiters, ids of backfills;
--     1 if more items of some kind are left.
--     With 0 items also: lanes and parked jobs. A number is then 0 unless more than
--       `C.cleanup_behind` are overdue.
-- Errors: FEATURE, SCHEMA
-- Events: hint, hint_tick, hint_ended, transitions
--- include script/prelude, script/clock, script/bits, doors/end, doors/ready, doors/keys, script/recount_bits

local noted = call('HMGET', K.meta, 'sweeper', 'ages')
local sweeper, upto = string.match(noted[1] or '', '^(%d+):(%d+)$')
if sweeper and ARGV[9] ~= '0' and sweeper ~= ARGV[9] and whole(upto) > now and whole(upto) <= now + C.sweeper_lease then
  return {}
end
local items = tonumber(ARGV[1])

-- With 0 items: whether too many expired entries wait. The ages for producers, remembered ids and
-- dead jobs are those of the last worker that swept.
if items == 0 then
  local function count_expired(key, upto)
    return call('ZRANGEBYSCORE', key, '-inf', upto, 'LIMIT', C.cleanup_behind, 1)[1] and C.cleanup_behind + 1 or 0
  end
  local producers, remembered, dead = string.match(noted[2] or '', '^(%d+):(%d+):(%d+)$')
  local silent = count_expired(K.seen, ms(now - whole(producers or ARGV[2])))
  local forgotten, died = count_expired(K.remembered, ms(now - whole(remembered or ARGV[3]))), count_expired(K.dead, ms(now - whole(dead or ARGV[5])))
  -- Kept jobs are in two places.
  local others = math.min(call('ZCOUNT', K.lapsing, '-inf', ms(now)), C.cleanup_behind + 1)
  local ended = (others > C.cleanup_behind or kept_until_at(ms(C.cleanup_behind - others)) <= now) and C.cleanup_behind + 1 or 0
  local rates, over, looked = call('HLEN', K.tat), 0, 0
  -- The part that is expired is estimated from the next page of the scan.
  local page = rates > C.cleanup_behind and call('HSCAN', K.tat, string.match(call('HGET', K.meta, 'rates') or '', '^%d+$') or '0', 'COUNT', 100)[2] or {}
  for at = 2, #page, 2 do
    local tat, closed = string.match(page[at], '^(%d+):%d*:%d*:(%d*)$')
    looked, over = looked + 1, over + ((not tat or whole(tat) <= micros and whole(closed) <= now) and 1 or 0)
  end
  rates = math.floor(rates * over / math.max(looked, 1))
  return { silent, forgotten, died, ended, count_expired(K.within, ms(now)), {}, rates > C.cleanup_behind and rates or 0, count_expired(K.rested, ms(virtual_time())), count_expired(K.watched, ms(now)), count_expired(K.backfilled, ms(now - C.remembered_ms)), 0,
    count_expired(K.leases, ms(now)), count_expired(K.unreadable, ms(now)) }
end
local more = false

-- Notes that a step has removed this number of entries of a kind.
local function count_removed(removed)
  more = more or removed >= items
  return removed
end

-- Buries jobs that no release could read in time. A job that is in another state is checked again
-- after a minute.
local buried, over = {}, call('ZRANGEBYSCORE', K.unreadable, '-inf', ms(now), 'LIMIT', 0, items)
for _, id in ipairs(over) do
  local name = call('HGET', K.notes, id)
  if call('HEXISTS', K.jobs, id) == 0 or call('ZSCORE', K.dead, id) or call('HEXISTS', K.records, id) == 1 then
    delete_unreadable({ id })
  elseif name and string.find(name, '\1', 1, true) and call('ZSCORE', K.parked, name .. '\0' .. id) then
    remove_parked(name, id)
    end_dead(id, 'undecodable')
    buried[#buried + 1] = id
  else
    call('ZADD', K.unreadable, ms(now + 60000), id)
  end
end
count_removed(#over)

-- Removes a producer that has not enqueued since the last check. The producer of a relay has a
-- digest, and is removed after 30 checks. Each check appends a mark to the entry, and each enqueue
-- overwrites the entry.
local old = call('ZRANGEBYSCORE', K.seen, '-inf', ms(now - ARGV[2]), 'LIMIT', 0, math.min(10 * items, PIECE))
more = more or #old >= math.min(10 * items, PIECE)
local entries = #old > 0 and call('HMGET', K.producers, unpack(old)) or {}
local silent, marked, looked = {}, {}, {}
for at, producer in ipairs(old) do
  local entry = entries[at]
  if entry and #string.match(entry, '%?*$') < (string.find(entry, '^%d+#') and 30 or 1) then
    marked[#marked + 1], marked[#marked + 2] = producer, entries[at] .. '?'
    looked[#looked + 1], looked[#looked + 2] = ms(now), producer
  elseif #silent < items then
    silent[#silent + 1] = producer
  end
end
call_in_pieces('HSET', K.producers, marked)
call_in_pieces('ZADD', K.seen, looked)
call_in_pieces('ZREM', K.seen, silent)
call_in_pieces('HDEL', K.producers, silent)

old = call('ZRANGEBYSCORE', K.remembered, '-inf', ms(now - ARGV[3]), 'LIMIT', 0, items)
if #old < items then
  local excess = call('ZCARD', K.remembered) - #old - tonumber(ARGV[4])
  if excess > 0 then
    old = call('ZRANGE', K.remembered, 0, #old + math.min(excess, items - #old) - 1)
  end
end
count_removed(#old)
call_in_pieces('ZREM', K.remembered, old)
call_in_pieces('HDEL', K.given, old)

-- A dead job has a reason. Another program may have added an id without a reason, whose job is
-- alive elsewhere. If the lists are too long to be read, such a job is assumed to be alive. If it
-- is not, the auditor finds it.
local passed = 0
local function is_live(id)
  if call('HEXISTS', K.notes, id) == 1 then
    return false
  end
  if call('HEXISTS', K.active, id) == 1 or call('ZSCORE', K.scheduled, id) or call('ZSCORE', K.retry, id) then
    return true
  end
  for _, list in pairs(LISTS) do
    passed = passed + call('LLEN', list)
  end
  if passed > 40000 then
    return true
  end
  for _, list in pairs(LISTS) do
    if call('LPOS', list, id) then
      return true
    end
  end
  return false
end

local dead = 0
while dead < items do
  local head = call('ZRANGE', K.dead, 0, 0, 'WITHSCORES')
  if not head[1] then
    break
  end
  local bytes = whole(call('HGET', K.counters, '.dead_bytes'))
  if tonumber(head[2]) > now - ARGV[5] and bytes <= tonumber(ARGV[6]) then
    break
  end
  local stays = is_live(head[1])
  remove_dead(head[1])
  if not stays then
    end_deleted({ head[1] })
    free_id(head[1])
  end
  dead = dead + 1
end
count('dead_evicted', count_removed(dead))

-- A job with tags takes twice as long to remove.
local most = has('i') and math.ceil(items / 2) or items
local ended = trim_ended(most, tonumber(ARGV[7]), tonumber(ARGV[8]))
more = more or ended >= most
-- Removes keys whose hold time has passed, and corrects hold times that are too far ahead.
local keys = has('u') and count_removed(prune_keys(items)) or 0

-- Removes the rates of keys whose theoretical arrival time has passed. The scan continues with the
-- next call until its end, because a page without expired rates proves nothing about the others. If
-- another kind of entry needs a further call anyway, one page is scanned.
local rates = 0
if has('m') and call('EXISTS', K.tat) == 1 then
  local cursor = string.match(call('HGET', K.meta, 'rates') or '', '^%d+$') or '0'
  for _ = 1, more and 1 or 5 do
    local page, over = call('HSCAN', K.tat, cursor, 'COUNT', items), {}
    for at = 1, #page[2], 2 do
      local tat, closed = string.match(page[2][at + 1], '^(%d+):%d*:%d*:(%d*)$')
      if not tat or whole(tat) <= micros and whole(closed) <= now then
        over[#over + 1] = page[2][at]
      end
    end
    -- A scan may return a key twice.
    cursor, rates = page[1], rates + (call_in_pieces('HDEL', K.tat, over) or 0)
    if rates >= items or cursor == '0' then
      break
    end
  end
  call('HSET', K.meta, 'rates', cursor)
  more = more or cursor ~= '0'
end

-- Removes groups whose start is not ahead of the virtual time. If no job waits, the starts of all
-- groups are removed.
local groups = 0
if has('g') then
  local ready = call('ZCARD', K.line) - call('HLEN', K.tombstones)
  for _, list in pairs(LISTS) do
    ready = ready + call('LLEN', list)
  end
  local waits = ready > 0
  restart_era(items)
  local old = call('ZRANGEBYSCORE', K.rested, '-inf', waits and ms(virtual_time()) or '+inf', 'LIMIT', 0, items)
  call_in_pieces('ZREM', K.rested, old)
  groups = count_removed(#old)
  if not waits and #old < items and virtual_time() > 0 and call('EXISTS', K.shut) == 0 then
    -- Virtual time is reset, so that it never overflows.
    local plain = whole(call('HGET', K.meta, 'plain') or '')
    call('HSET', K.meta, 'virtual', '0', 'plain', ms(math.max(plain - virtual_time(), 0)))
  end
end

-- Removes callers whose wait has ended.
local waiters = 0
if has('w') then
  local gone = call('ZRANGEBYSCORE', K.watched, '-inf', ms(now), 'LIMIT', 0, items)
  call_in_pieces('ZREM', K.watched, gone)
  waiters = count_removed(#gone)
end

local backfilled = call('ZRANGEBYSCORE', K.backfilled, '-inf', ms(now - C.remembered_ms), 'LIMIT', 0, items)
call_in_pieces('ZREM', K.backfilled, backfilled)
count_removed(#backfilled)

if has('v') then
  is_followed()
end
more = more or forgotten >= FORGOTTEN_AT_ONCE

if ARGV[9] ~= '0' and (more or ARGV[10] == '1') then
  call('HSET', K.meta, 'sweeper', ARGV[9] .. ':' .. ms(now + C.sweeper_lease))
elseif sweeper and (sweeper == ARGV[9] or whole(upto) <= now) then
  call('HDEL', K.meta, 'sweeper')
end
local ages = table.concat({ ARGV[2], ARGV[3], ARGV[5] }, ':')
if ARGV[9] ~= '0' and noted[2] ~= ages and head[1] then
  call('HSET', K.meta, 'ages', ages)
end

-- Clears the bits of features that are no longer used, and sets those of data that other programs
-- have written.
recount_bits()
return { #silent, #old, dead, ended, keys, buried, rates, groups, waiters, #backfilled, more and 1 or 0 }
