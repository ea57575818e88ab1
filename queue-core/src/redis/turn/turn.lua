-- R2 to R5: one turn of a lane.
--
-- Inputs
--   ARGV[1] lane     the lane's name
--   ARGV[2] seq      the number of the turn
--   ARGV[3] lease    how long the lease is from now on, in ms
--   ARGV[4] claim    how many jobs are wanted
--   with `kept`: most kept jobs, most bytes of them
--   with `all`:  suspect ('1' or '0'); how many tasks may be resumed, their names, and if there are any the release; how many other endings, and of each its claim, id,
--                kind and two parameters; what runs have used of rates, see `used.lua`
--   groups of acks, to the end: claim; with `kept` how long they are kept, in ms, or ''; how many, and their ids; with `kept` how many
--                results, and these, and if they are kept their sizes, or the one that all have
-- Output
--   ids, envelopes, claim number, now, what waits (1 more jobs, 2 suspects), time to the next that is due or '', lanes, bits or nothing;
--   with `failed` attempts; with `all` crashes, snoozes, positions of stale endings as text, parked, paused, and if anything
--   goes on by itself from this turn on, that, and the ids of jobs that were parked because their tasks are paused.
--   Times are in microseconds: a job starts when it is due, not a millisecond later.
--   Nothing, and nothing has changed, where it takes the profile `all`: the queue has bits that this one lacks, or a job is due; the
--   lane is not known, or the turn is not its next; an ending is stale.
--- include script/prelude, script/clock

--- with all
--- include script/bits
local paused, resumed, aside = has('h') and head[5] == '1', {}, {}
--- without all
local head = call('HMGET', K.meta, 'schema', 'bits', 'due', 'claim')
local bits, due = head[2], whole(head[3] or '')
if due <= now or not bits or string.find(bits, C.uncovered) or head[1] and head[1] ~= C.schema then
  return false
end
--- include script/has
--- end

local lane, seq = ARGV[1], tonumber(ARGV[2])
local entry = call('HGET', K.lanes, lane)
local last = entry and tonumber(string.match(entry, '^%d+') or '')
--- with all
if not last or seq > last + 1 then
  return redis.error_reply('FORGOTTEN ' .. lane)
elseif seq < last then
  return redis.error_reply('OLD ' .. lane .. ' ' .. ARGV[2])
end
--- without all
if last ~= seq - 1 then
  return false
end
--- end

local large = has('l')
local wanted, max_bytes = tonumber(ARGV[4]), large and C.max_bytes or nil
if large then
  wanted = math.min(wanted, 64)
end
local ids = {}
--- begin
--- include doors/settle, doors/end, doors/admit, turn/answer
--- with all
--- include turn/replay
if seq == last then
  return replay()
end
-- Where another program has made something else of this list, the script stops here, and no ending is carried out without an answer.
call('LLEN', K.ready2)
--- include turn/resume
--- end

--- include turn/acks
--- without all
--- include doors/pop
--- end
--- include turn/finish
--- with all
--- include turn/others, turn/claim, turn/aside
--- end

local number = '0'
if #ids > 0 then
  local last_number = whole(head[4])
  -- A number near the end of all numbers would not grow any more.
  number = ms(math.max(last_number < FOREVER / 4 and last_number + 1 or 0, now))
end
--- with all
followed = false
--- end
local told = { stamp(lane, number) }
local stale_text = ''
--- with all
if followed and waits % 2 == 0 then
  -- A job came into the line because its key was free. Its group may be full all the same.
  served_all = false
  waits = waits + what_waits(false) % 2
end
stale_text = table.concat(stale, ',')
if woken or #resumed > 0 or (promoted or opened) and waits > 0 then
  hint()
end
--- end
if #ids == 0 and stale_text == '' then
  call('HSET', K.lanes, lane, ARGV[2])
else
  call('HSET', K.lanes, lane, ARGV[2] .. ':' .. number .. ':' .. stale_text .. ':' .. (#ids > 0 and cmsgpack.pack(ids) or ''))
end
call('ZADD', K.leases, ms(now + ARGV[3]), lane)
return answer(number, told, waits, stale_text)
