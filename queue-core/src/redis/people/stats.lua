-- Depths and counters. Answers: ready, scheduled, retry, active, parked, dead, lanes, paused, counters.
--- include script/prelude, script/clock

local ready = -call('HLEN', K.tomb)
for _, key in ipairs({ K.ready0, K.ready1, K.ready2, K.ready3, K.suspect }) do
  ready = ready + call('LLEN', key)
end
return {
  ready, call('ZCARD', K.scheduled), call('ZCARD', K.retry), call('HLEN', K.active), call('ZCARD', K.parked),
  call('ZCARD', K.dead), call('ZCOUNT', K.leases, '(' .. ms(now), '+inf'),
  call('HGET', K.meta, 'paused') == '1' and 1 or 0, call('HGETALL', K.counters),
}
