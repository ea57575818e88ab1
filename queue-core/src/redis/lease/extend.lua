-- R6. ARGV: lane, last answered turn, lease; of one lane of a worker what that uses, but for the time.
--- include script/prelude, script/clock, script/schema

local entry = call('HGET', K.lanes, ARGV[1])
if not entry or tonumber(string.match(entry, '^%d+') or -1) < tonumber(ARGV[2]) then
  return redis.error_reply('FORGOTTEN ' .. ARGV[1])
end
call('ZADD', K.leases, ms(now + ARGV[3]), ARGV[1])
if ARGV[4] then
  -- Whatever another program has put there: the lease is renewed.
  redis.pcall('HSET', K.loads, string.match(ARGV[1], '^[^.]*'), ARGV[4] .. cmsgpack.pack(now))
end
return call('HGET', K.gone, ARGV[1])
