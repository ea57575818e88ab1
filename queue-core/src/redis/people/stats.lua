-- Depths and counters. Answers: ready, scheduled, retry, active, parked, dead, held, lanes, workers, paused, counters,
-- now, and since when the oldest ready job could start, or nothing.
--- include script/prelude, script/clock, lease/deregister

-- The options of an envelope: its map without the payload, which comes first. The server's decoder knows no binary values.
local function options(envelope, first)
  local fields, marker = byte(envelope, first) or 0, byte(envelope, first + 3)
  local bytes = marker and 2 ^ (marker - 196)
  if fields < 129 or fields > 143 or string.sub(envelope, first + 1, first + 2) ~= '\161p' or (bytes ~= 1 and bytes ~= 2 and bytes ~= 4) then
    return {}
  end
  local length = 0
  for place = first + 4, first + 3 + bytes do
    length = length * 256 + (byte(envelope, place) or 0)
  end
  return unpacked(string.char(fields - 1) .. string.sub(envelope, first + 4 + bytes + length)) or {}
end

-- Since when a job of a list could start. Nothing if that is not known: it is gone, it waited for another time meanwhile, or its task repeats.
local function since_of(id, list)
  local envelope = call('HGET', K.jobs, id)
  if
    not envelope or #envelope < 9 or byte(envelope) ~= 1 or call('HGET', K.tomb, id .. list) or call('HGET', K.attempts, id)
    or call('HGET', K.snoozes, id) or call('HGET', K.crashes, id)
  then
    return nil
  end
  local at, since = 3 + byte(envelope, 2), 0
  for place = at, at + 5 do
    since = since * 256 + (byte(envelope, place) or 0)
  end
  local task = call('HGET', K.tasks, string.sub(envelope, 3, at - 1))
  if since == 0 or (task and string.find(task, 'r', 1, true)) then
    return nil
  end
  local map = options(envelope, at + 6)
  return math.max(since + whole(map.d or 0), whole(map.t or 0))
end

local oldest = nil
for list, key in pairs({ ['0'] = K.ready0, ['1'] = K.ready1, ['2'] = K.ready2, ['3'] = K.ready3 }) do
  for _, id in ipairs(call('LRANGE', key, 0, C.heads - 1)) do
    local since = since_of(id, list)
    if since then
      oldest = math.min(oldest or since, since)
      break
    end
  end
end

local ready = call('ZCARD', K.line) - call('HLEN', K.tomb)
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
  call('HGET', K.meta, 'paused') == '1' and 1 or 0, call('HGETALL', K.counters), now, oldest and ms(oldest),
}
