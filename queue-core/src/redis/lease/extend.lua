-- Renews the lease of a lane (R6).
-- ARGV[1]  lane    the name of the lane
-- ARGV[2]  seq     the last answered turn
-- ARGV[3]  lease   the duration of the lease from now on, in ms
-- ARGV[4]  usage   the resource usage of the worker without the time, sent for one of its lanes;
--                  omitted or '' if there is none
-- ARGV[5]  leaves  '1' if the lane leaves; omitted otherwise
-- Returns: the jobs of the lane that were cancelled. If the worker has a request, a list of both.
-- Errors: FORGOTTEN, SCHEMA
--- include script/prelude, script/clock, script/schema

local entry = call('HGET', K.lanes, ARGV[1])
if not entry or tonumber(string.match(entry, '^%d+') or -1) < tonumber(ARGV[2]) then
  return redis.error_reply('FORGOTTEN ' .. ARGV[1])
end
call('ZADD', K.leases, ms(now + ARGV[3]), ARGV[1])
if ARGV[5] then
  redis.pcall('SADD', K.leaving, ARGV[1])
end
if ARGV[4] and ARGV[4] ~= '' then
  local worker = string.match(ARGV[1], '^[^.]*')
  -- If another program has changed the type of these keys, the lease is still renewed.
  redis.pcall('HSET', K.loads, worker, ARGV[4] .. cmsgpack.pack(now))
  local asked = redis.pcall('HGET', K.asked, worker)
  if type(asked) == 'string' then
    return { call('HGET', K.gone, ARGV[1]) or '', asked }
  end
end
return call('HGET', K.gone, ARGV[1])
