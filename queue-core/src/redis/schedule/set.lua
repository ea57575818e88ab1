-- Changes a schedule, and stores the jobs of its ticks, if its state is the one that the caller has
-- read.
-- ARGV[1]     name        the name of the schedule
-- ARGV[2]     asked       the time of the broker at the request
-- ARGV[3]     read        the state that was read, or '' if there was no such schedule
-- ARGV[4]     deed        's' to set it or 'r' to remove it
-- ARGV[5]     definition  the definition, or '' to keep it
-- ARGV[6]     state       the new state
-- ARGV[7]     due         its due time, or ''
-- ARGV[8]     declared    '1' if code declares it
-- ARGV[9]     cancels     the id of a job to cancel, or ''
-- ARGV[10]    needs       the feature bits that the jobs need
-- ARGV[11..]  jobs        of each job id, envelope, priority, number of the run, '1' if its id is
--                         remembered, group or '', chain or '', cost
-- Returns: 'STALE', 'MOVED', or a digit per job: 1 if it was stored, or 0
-- Errors: BEHIND, FEATURE, SCHEMA
-- Events: hint, hint_tick, hint_ended, transitions
--- include script/prelude, script/clock, script/bits, script/guard, doors/settle, doors/end, doors/return_jobs, doors/tags, script/first_due

local name = ARGV[1]
if math.abs(now - ARGV[2]) > C.clock_moved then
  return 'MOVED'
end
if (call('HGET', K.states, name) or '') ~= ARGV[3] then
  return 'STALE'
end
if ARGV[4] == 'r' then
  call('HDEL', K.schedules, name)
  call('HDEL', K.states, name)
  call('ZREM', K.ticks, name)
  call('SREM', K.declared, name)
  return ''
end
local behind = unknown_to_a_lane(ARGV[10])
if behind then
  return redis.error_reply('BEHIND ' .. behind)
end
if not head[1] then
  call('HSET', K.meta, 'schema', C.schema)
end

if ARGV[5] ~= '' then
  call('HSET', K.schedules, name, ARGV[5])
end
call('HSET', K.states, name, ARGV[6])
call('ZADD', K.ticks, ARGV[7] ~= '' and ARGV[7] or ms(FOREVER), name)
call(ARGV[8] == '1' and 'SADD' or 'SREM', K.declared, name)
local first = call('ZRANGE', K.ticks, '0', '0', 'WITHSCORES')
if ARGV[7] ~= '' and tonumber(first[2]) >= tonumber(ARGV[7]) then
  hint_tick(tonumber(ARGV[7]))
end

-- Whether a backfill or an operator has made a job with this id lately. Also remembers the id.
local function remember_made_id(id)
  if whole(call('ZSCORE', K.backfilled, id) or '') > now - C.remembered_ms then
    return true
  end
  call('ZADD', K.backfilled, ms(now), id)
  return false
end

local answers, bodies, stored, ticked, seen = {}, {}, {}, {}, {}
for at = 11, #ARGV, 8 do
  local id, envelope, priority = ARGV[at], ARGV[at + 1], ARGV[at + 2]
  local known = seen[id] or ARGV[at + 4] == '1' and remember_made_id(id) or call('HEXISTS', K.jobs, id) == 1
  seen[id] = true
  answers[#answers + 1] = known and '0' or '1'
  if not known then
    stored[#stored + 1] = id
    bodies[#bodies + 1], bodies[#bodies + 2] = id, envelope
    ticked[#ticked + 1], ticked[#ticked + 2] = id, ARGV[at + 3] .. ':' .. name
    if priority ~= '2' then
      put_rare('p', K.priority, id, priority)
    end
    if ARGV[at + 5] ~= '' or ARGV[at + 6] ~= '' then
      store_group_of(id, ARGV[at + 5] ~= '' and ARGV[at + 5] or nil, ARGV[at + 6] ~= '' and ARGV[at + 6] or nil, ARGV[at + 7])
    end
  end
end
if #stored > 0 then
  set_bit('s')
  if string.find(ARGV[10], 'l', 1, true) then
    set_bit('l')
  end
  may_have_tags = string.find(ARGV[10], 'i', 1, true) ~= nil
  put_jobs(bodies)
  set_fields(K.ticked, ticked)
  if push(stored, false) then
    hint()
  end
  count('enqueued', #stored)
end

-- A waiting job is cancelled now. A running job is cancelled at its ending: it keeps its receipt
-- until then, and its lane is notified.
local function cancel_job(id)
  local entry, receipt = call('HGET', K.ticked, id), call('HGET', K.active, id)
  if not entry then
    return
  end
  if not receipt then
    remove_waiting(id)
    end_without_run(id, 'cancelled', C.stopped)
    update_due()
    return
  end
  set_field(K.ticked, id, (string.gsub(entry, '^(%d+):', '%1!')))
  local lane = lane_of(receipt)
  if lane and call('HEXISTS', K.lanes, lane) == 1 then
    local cancelled = unpacked_pairs(call('HGET', K.gone, lane))
    if #cancelled < 500 then
      table.insert(cancelled, { id, string.match(receipt, '(%d+)$') })
      call('HSET', K.gone, lane, cmsgpack.pack(cancelled))
    end
  end
end
if ARGV[9] ~= '' then
  cancel_job(ARGV[9])
end
return table.concat(answers)
