-- Depths and counters. Answers: ready, scheduled, retry, active, parked, dead, lanes, workers, paused, counters.
--- include script/prelude, script/clock, lease/deregister

local ready = -call('HLEN', K.tomb)
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
  call('ZCARD', K.dead), #lanes, workers,
  call('HGET', K.meta, 'paused') == '1' and 1 or 0, call('HGETALL', K.counters),
}
