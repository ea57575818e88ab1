-- Adds the counts of a worker to the history of its queue, in the current minute and hour. It does
-- not run on a full server.
-- ARGV[1]    worker  the name of the worker
-- ARGV[2]    number  the number of the report
-- ARGV[3..]  counts  pairs of:
--     the name of a task, and its tally, packed;
--     a zero and the fingerprint of a failure pattern, and its tally, packed;
--     a one and the name of an outbox among the counters, and its record without the time
-- Returns: 1, or 0 for a replay
-- Errors: SCHEMA
--- include script/prelude, script/clock, script/schema

local minute, hour = math.floor(now / 60000), math.floor(now / 3600000)

-- A replay changes nothing.
local known = call('HGET', K.reporters, ARGV[1])
if known and tonumber(ARGV[2]) <= whole(string.match(known, '^%d+') or '') then
  return 0
end

local function table_or_empty(value)
  return type(value) == 'table' and value or {}
end

--- include history/failed

-- The sums of two lists of counts.
local function add_lists(one, other)
  local sum = {}
  for at = 1, math.max(#one, #other) do
    sum[at] = whole(one[at]) + whole(other[at])
  end
  return sum
end

-- The sum of two histograms. Each is a sum, followed by pairs of a bucket and a count.
local function add_histograms(one, other)
  local flat, place = { whole(one[1]) + whole(other[1]) }, {}
  for _, pairs_ in ipairs({ one, other }) do
    for at = 2, #pairs_ - 1, 2 do
      local bucket, count_ = whole(pairs_[at]), whole(pairs_[at + 1])
      if place[bucket] then
        flat[place[bucket]] = flat[place[bucket]] + count_
      else
        flat[#flat + 1], flat[#flat + 2] = bucket, count_
        place[bucket] = #flat
      end
    end
  end
  return flat
end

local function merge_largest_and_latest(one, other)
  return { math.max(whole(one[1]), other[1]), other[2] }
end

-- Adds to the row of this minute or hour, and replaces the row of an earlier period.
local function add_to_period(field, period, tally, add_counts)
  local row = unpacked(call('HGET', K.history, field))
  if row and row[1] == period then
    row = {
      period, add_counts(table_or_empty(row[2]), table_or_empty(tally[1])), add_histograms(table_or_empty(row[3]), table_or_empty(tally[2])), add_histograms(table_or_empty(row[4]), table_or_empty(tally[3])),
    }
  else
    row = { period, tally[1], tally[2], tally[3] }
  end
  call('HSET', K.history, field, cmsgpack.pack(row))
end

local function add_to_task(task, tally, add_counts)
  add_to_period(task .. '\0m' .. ms(minute % C.minutes), minute, tally, add_counts)
  add_to_period(task .. '\0h' .. ms(hour % C.hours), hour, tally, add_counts)
end

-- The hour of the last report of a task. The suffix `r` means that its jobs repeat.
local function last_report_hour(seen)
  return whole(string.match(seen or '', '^%d+') or '')
end

-- Removes the history of a task that had no job during the hours that are kept. It removes at most
-- one task, so that the script stays short.
local function delete_unused_task()
  local tasks = call('HKEYS', K.tasks)
  local seen = #tasks > 0 and call('HMGET', K.tasks, unpack(tasks)) or {}
  for at, task in ipairs(tasks) do
    if last_report_hour(seen[at]) < hour - C.hours then
      local fields = {}
      for place = 0, C.minutes - 1 do
        fields[#fields + 1] = task .. '\0m' .. ms(place)
      end
      for place = 0, C.hours - 1 do
        fields[#fields + 1] = task .. '\0h' .. ms(place)
      end
      call('HDEL', K.history, unpack(fields))
      call('HDEL', K.tasks, task)
      return
    end
  end
end

-- The name under which a task is counted.
local function counted_task(task, repeats)
  if task == C.others then
    return task
  end
  local seen = call('HGET', K.tasks, task)
  if not seen and call('HLEN', K.tasks) >= C.tasks then
    delete_unused_task()
    if call('HLEN', K.tasks) >= C.tasks then
      return C.others
    end
  end
  local entry = ms(hour) .. ((repeats or string.find(seen or '', 'r', 1, true)) and ':r' or '')
  if seen ~= entry then
    call('HSET', K.tasks, task, entry)
  end
  return task
end

-- Adds a process. Whenever the number of processes reaches a multiple of 100, processes without a
-- recent report are removed.
local reporters = call('HLEN', K.reporters)
if not known and reporters > 0 and reporters % 100 == 0 then
  local names = call('HKEYS', K.reporters)
  for from = 1, #names, PIECE do
    local some = { unpack(names, from, math.min(from + PIECE - 1, #names)) }
    for at, entry in ipairs(call('HMGET', K.reporters, unpack(some))) do
      if whole(string.match(entry or '', ':(%d+)$')) < hour - C.reporter_hours then
        call('HDEL', K.reporters, some[at])
      end
    end
  end
end
call('HSET', K.reporters, ARGV[1], ARGV[2] .. ':' .. ms(hour))

-- Stores the record of an outbox. If there are too many, it replaces the one with the oldest
-- report.
local function store_outbox(name, record)
  if call('HEXISTS', K.counters, name) == 0 then
    local stored, outboxes, oldest = call('HGETALL', K.counters), 0, nil
    for at = 1, #stored, 2 do
      if string.sub(stored[at], 1, #C.outbox) == C.outbox then
        local reported = whole(table_or_empty(unpacked(stored[at + 1]))[6])
        outboxes = outboxes + 1
        if not oldest or reported < oldest[2] then
          oldest = { stored[at], reported }
        end
      end
    end
    if outboxes >= C.outboxes then
      call('HDEL', K.counters, oldest[1])
    end
  end
  call('HSET', K.counters, name, record .. cmsgpack.pack(now))
end

for at = 3, #ARGV - 1, 2 do
  local kind = byte(ARGV[at])
  local tally = kind ~= 1 and unpacked(ARGV[at + 1])
  if kind == 1 then
    store_outbox(string.sub(ARGV[at], 2), ARGV[at + 1])
  elseif tally and kind == 0 then
    count_failure(string.sub(ARGV[at], 2), tally)
  elseif tally then
    add_to_task(counted_task(ARGV[at], whole(table_or_empty(tally[1])[7]) > 0), tally, add_lists)
  end
end

local ready = call('ZCARD', K.line) - call('HLEN', K.tombstones)
for _, key in ipairs({ K.ready0, K.ready1, K.ready2, K.ready3, K.suspect }) do
  ready = ready + call('LLEN', key)
end
local enqueued = whole(call('HGET', K.counters, 'enqueued'))
add_to_task('', { { math.max(ready, 0), enqueued }, { 0 }, { 0 } }, merge_largest_and_latest)
return 1
