-- Runs one turn of a lane (R2 to R5). `turn_plain.lua` does the same for queues without rare
-- features.
-- ARGV[1]    lane     the name of the lane
-- ARGV[2]    seq      the number of the turn
-- ARGV[3]    lease    the duration of the lease from now on, in ms
-- ARGV[4]    claim    the number of wanted jobs
-- ARGV[5]    count    the most kept jobs
-- ARGV[6]    bytes    the most bytes of kept jobs
-- ARGV[7]    suspect  whether a suspect may be claimed ('1' or '0')
-- ARGV[8]    resumed  the number of tasks that may be resumed
-- ARGV[9..]  rest     in this order:
--     the names of these tasks, and the release if there are any
--     other endings: their number, and for each its claim, id, kind and two parameters
--     the reported usage of rates, see `turn/used.lua`
--     groups of acks, to the end: claim; the retention in ms, or ''; the number of acks, and their
--       ids; the number of results, and the results; for kept jobs the sizes, or one common size
-- Returns: times are in microseconds, so that a job starts when it is due, not a millisecond later.
--     ids, envelopes, claim number, current time;
--     waiting work (the sum of 1 for more jobs and 2 for suspects), time to the next due job or '';
--     lanes, bits or nothing;
--     attempts, crashes, snoozes of the jobs;
--     positions of stale endings as text, 1 if jobs are parked, 1 if the queue is paused;
--     if a pause has ended or jobs were parked because their tasks are paused: the resumed
--       subjects, and the ids of these jobs
-- Errors: FEATURE, FORGOTTEN, OLD, SCHEMA
-- Events: hint, hint_tick, hint_ended, transitions
--- include script/prelude, script/clock, script/bits, script/tools, script/hint, script/rare, doors/transitions, doors/aging, doors/watched, doors/progress, doors/tags, schedule/ended
local paused, resumed, aside = has('h') and head[5] == '1', {}, {}

local lane, seq = ARGV[1], tonumber(ARGV[2])
local entry = call('HGET', K.lanes, lane)
local last = entry and tonumber(string.match(entry, '^%d+') or '')
if not last or seq > last + 1 then
  return redis.error_reply('FORGOTTEN ' .. lane)
elseif seq < last then
  return redis.error_reply('OLD ' .. lane .. ' ' .. ARGV[2])
end

local large = has('l')
local wanted, max_bytes = tonumber(ARGV[4]), large and C.max_bytes or nil
if large then
  wanted = math.min(wanted, 64)
end
local ids = {}
return (function()
--- include doors/settle, doors/end, doors/admit, turn/answer, turn/waits, script/first_due
if seq == last then
  --- include turn/replay
end
-- If another program has changed the type of this list, the script stops here. Otherwise it would
-- stop later, after endings that it could not answer.
call('LLEN', K.ready2)
--- include turn/resume, turn/acks, turn/finish, turn/others, turn/claim

local number = '0'
if #ids > 0 then
  local last_number = whole(head[4])
  -- A number near the largest one would no longer grow.
  number = ms(math.max(last_number < FOREVER / 4 and last_number + 1 or 0, now))
end
followed = false
local described = { give_receipts(lane, number) }
if followed and waits % 2 == 0 then
  -- A job has become ready because its unique key is free. Its group may be full.
  served_all = false
  waits = waits + waiting_work(false) % 2
end
local stale_text = table.concat(stale, ',')
if woken or #resumed > 0 or (promoted or opened) and waits > 0 then
  hint()
end
if #ids == 0 and stale_text == '' then
  call('HSET', K.lanes, lane, ARGV[2])
else
  call('HSET', K.lanes, lane, ARGV[2] .. ':' .. number .. ':' .. stale_text .. ':' .. (#ids > 0 and cmsgpack.pack(ids) or ''))
end
call('ZADD', K.leases, ms(now + ARGV[3]), lane)
return write_answer(number, described, waits, stale_text)
end)()
