-- Reads schedules of a queue.
-- ARGV[1]  which   'one', 'declared', 'all' or 'after'
-- ARGV[2]  name    'one': the name
-- ARGV[2]  offset  'all' and 'after': the offset
-- ARGV[3]  limit   'all' and 'after': the limit
-- ARGV[4]  time    'after': the time after which they are due
-- Returns: the current time, names, definitions and states. One name more than the limit if there
--   is one.
-- Errors: SCHEMA
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
