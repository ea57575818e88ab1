-- R6. ARGV: lane, last answered turn, lease; of one lane of a worker what that uses, but for the
-- time; '1' if the lane leaves, with '' before it if it says nothing. Answers what was cancelled
-- under the lane; with what the worker was asked, if there is anything.
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
  -- Whatever another program has put there: the lease is renewed.
  redis.pcall('HSET', K.loads, worker, ARGV[4] .. cmsgpack.pack(now))
  local asked = redis.pcall('HGET', K.asked, worker)
  if type(asked) == 'string' then
    return { call('HGET', K.gone, ARGV[1]) or '', asked }
  end
end
return call('HGET', K.gone, ARGV[1])
