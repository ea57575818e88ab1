-- Returns the due schedules, and postpones each, in case the caller does not change it. It uses no
-- additional memory.
-- ARGV[1]  limit     the most schedules
-- ARGV[2]  postpone  the time by which they are postponed, in ms
-- Returns: the current time and the due time of the next schedule or '', both in microseconds;
--   then names, definitions and states
-- Errors: SCHEMA
--- include script/prelude, script/clock, script/schema, script/tools

local names, definitions, states, later, gone, bytes = {}, {}, {}, {}, {}, 0
for _, name in ipairs(call('ZRANGEBYSCORE', K.ticks, '-inf', ms(now), 'LIMIT', 0, ARGV[1])) do
  local definition, state = call('HGET', K.schedules, name), call('HGET', K.states, name)
  if not definition or not state then
    gone[#gone + 1] = name
  else
    bytes = bytes + #definition + #state
    if bytes > C.max_bytes and #names > 0 then
      break
    end
    local at = #names + 1
    names[at], definitions[at], states[at] = name, definition, state
    later[2 * at - 1], later[2 * at] = ms(now + ARGV[2]), name
  end
end
call_in_pieces('ZADD', K.ticks, later)
call_in_pieces('ZREM', K.ticks, gone)
local first = call('ZRANGE', K.ticks, '0', '0', 'WITHSCORES')[2]
local next_due = first and whole(first) < FOREVER and ms(whole(first) * 1000) or ''
return { ms(micros), next_due, names, definitions, states }
