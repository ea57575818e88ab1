-- Schedules of a queue.
--
-- Inputs
--   'one' and a name;
--   'declared';
--   or 'all', an offset and a limit;
--   or 'after', the same and the time after which they are due.
-- Output
--   now, names, definitions, states;
--   one name more than the limit, if there is one.
-- Errors
--   SCHEMA: another schema number
--- include script/prelude, script/clock, script/schema

local names = { ARGV[2] }
if ARGV[1] == 'declared' then
  names = call('SMEMBERS', K.declared)
elseif ARGV[1] == 'all' then
  names = call('ZRANGE', K.ticks, ARGV[2], ms(ARGV[2] + ARGV[3]))
elseif ARGV[1] == 'after' then
  names = call('ZRANGEBYSCORE', K.ticks, '(' .. ARGV[4], '(' .. ms(FOREVER), 'LIMIT', ARGV[2], ARGV[3] + 1)
end
if #names == 0 then
  return { now, {}, {}, {} }
end
return { now, names, call('HMGET', K.schedules, unpack(names)), call('HMGET', K.states, unpack(names)) }
