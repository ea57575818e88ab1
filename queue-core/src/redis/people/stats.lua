-- Reads the depths and counters of a queue.
-- Returns:
--     the jobs that are ready, scheduled, retry, active, parked, dead and held;
--     the lanes and the workers;
--     1 if the queue is paused, or 0;
--     the counters;
--     the interval of aging in ms, or 0;
--     the current time;
--     the time since which the oldest ready job could start, or nothing
-- Errors: FEATURE, SCHEMA
--- include script/prelude, script/clock

-- Unknown bits: every feature is read from its keys.
local bits = nil
--- include script/has, people/since, lease/deregister

local oldest = nil
for list, key in pairs({ ['0'] = K.ready0, ['1'] = K.ready1, ['2'] = K.ready2, ['3'] = K.ready3 }) do
  for _, id in ipairs(call('LRANGE', key, 0, C.heads - 1)) do
    local since = startable_since(id, list)
    if since then
      oldest = math.min(oldest or since, since)
      break
    end
  end
end

-- Reads the age of jobs of the groups that are served next, and of jobs that have limits but no
-- group. If none of these has an age, reads those of some groups that may not be served.
local lined = call('ZCARD', K.line)
if lined > 0 then
  local seen, left, behind = {}, C.heads, '(' .. NO_GROUP .. '\255'
  local function read_age(group)
    local since = not seen[group] and oldest_startable_since(group)
    oldest, seen[group] = since and math.min(oldest or since, since) or oldest, true
  end
  for _, group in ipairs(call('ZRANGE', K.next, 0, C.heads - 1)) do
    read_age(group)
  end
  read_age(NO_GROUP)
  for _ = 1, oldest and 0 or 2 * C.heads do
    local member = left > 0 and call('ZRANGEBYLEX', K.line, behind, '(\255', 'LIMIT', 0, 1)[1]
    if not member then
      break
    end
    local group = parts_of(member)
    left, behind = seen[group] and left or left - 1, '(' .. group .. '\255'
    read_age(group)
  end
end

local ready = lined - call('HLEN', K.tombstones)
for _, key in ipairs({ K.ready0, K.ready1, K.ready2, K.ready3, K.suspect }) do
  ready = ready + call('LLEN', key)
end
local lanes, workers, seen = call('ZRANGE', K.leases, '(' .. ms(now), '+inf', 'BYSCORE'), 0, {}
for _, lane in ipairs(lanes) do
  local worker = worker_of(lane)
  workers, seen[worker] = seen[worker] and workers or workers + 1, true
end
return {
  ready, call('ZCARD', K.scheduled), call('ZCARD', K.retry), call('HLEN', K.active), call('ZCARD', K.parked),
  call('ZCARD', K.dead), call('HLEN', K.held), #lanes, workers,
  call('HGET', K.meta, 'paused') == '1' and 1 or 0, call('HGETALL', K.counters), string.match(call('HGET', K.meta, 'aging') or '', '^%d+') or '0', now, oldest and ms(oldest),
}
