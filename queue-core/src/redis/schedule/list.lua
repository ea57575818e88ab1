-- Schedules of a queue. ARGV: 'one' and a name; 'declared'; or 'all', an offset and a limit. Answers: now, names, definitions, states.
--- include script/prelude, script/clock, script/schema

local names = { ARGV[2] }
if ARGV[1] == 'declared' then
  names = call('SMEMBERS', K.declared)
elseif ARGV[1] == 'all' then
  names = call('ZRANGE', K.ticks, ARGV[2], ms(ARGV[2] + ARGV[3]))
end
if #names == 0 then
  return { now, {}, {}, {} }
end
return { now, names, call('HMGET', K.schedules, unpack(names)), call('HMGET', K.states, unpack(names)) }
