-- Reads further entries of a topic's log for one of its subscriptions, and stores a job for each
-- entry while fewer jobs are ready than wanted. If many jobs are wanted, it also reads entries for
-- later turns, because many calls with few entries cost more.
-- ARGV[1]  name    the name of the subscription
-- ARGV[2]  wanted  the number of wanted jobs
-- Returns: 1 if there is more to read, or 0
-- Errors: FEATURE, SCHEMA
-- Events: hint, hint_tick, hint_ended, transitions
--- include script/prelude, script/clock, script/bits

local name, wanted = ARGV[1], tonumber(ARGV[2])
if has('h') and head[5] == '1' then
  return 0
end

-- The number of jobs that could start. An eligible group counts as one job. Suspects do not count,
-- because a worker runs only one of them at a time. Tombstones are subtracted.
local function count_startable()
  local plain = math.min(call('LLEN', K.suspect) - call('HLEN', K.tombstones), 0)
  for _, list in ipairs({ K.ready0, K.ready1, K.ready2, K.ready3 }) do
    plain = plain + call('LLEN', list)
  end
  return math.max(plain, 0) + call('ZCARD', K.next)
end

-- Most turns of a busy worker end here, because enough jobs were read ahead.
local ready = count_startable()
if ready > wanted then
  return 1
end
return (function()
--- include doors/end, doors/return_jobs, doors/ready, topic/subscription, topic/event
local of = subscription_of(name)
if not of or of.token then
  return 0
end
if ready < wanted and wanted >= C.reads_ahead then
  wanted = wanted * 8
end

local taken = call('HLEN', K.jobs) - call('HLEN', K.records) - call('ZCARD', K.dead)
local read, bytes, enqueued, more, woken = 0, 0, 0, false, false
while true do
  local room = math.min(C.most_taken - taken, wanted - count_startable(), C.trim_step - read)
  if room <= 0 or bytes >= C.max_bytes then
    -- If it has taken the largest number of jobs, only an ending makes room.
    more = taken < C.most_taken
    break
  end
  -- The size of the first entries is unknown. The others are assumed to be of the same size.
  local asked = math.min(room, read == 0 and 16 or math.max(math.floor((C.max_bytes - bytes) * read / math.max(bytes, 1)), 1))
  local entries = call('XRANGE', K.log, '(' .. of.cursor, '+', 'COUNT', ms(asked))
  if #entries > 0 then
    if read == 0 then
      count_lost(of, length_of_log())
    end
    local stored, size = make_jobs(entries, of)
    woken = push(stored, false) or woken
    read, bytes, taken, enqueued = read + #entries, bytes + size, taken + #stored, enqueued + #stored
    of.cursor = entries[#entries][1]
    of.position = of.position and of.position + #entries
  end
  if #entries < asked then
    if not of.position then
      -- At the end of the log, the position of the cursor is known.
      local _, added = length_of_log()
      of.position, read = added, math.max(read, 1)
    end
    break
  end
end
if read > 0 then
  put_subscription(name, of)
  if not head[1] then
    call('HSET', K.meta, 'schema', C.schema)
  end
  count('enqueued', enqueued)
  if woken then
    hint()
  end
end
return more and call('XRANGE', K.log, '(' .. of.cursor, '+', 'COUNT', '1')[1] and 1 or 0
end)()
