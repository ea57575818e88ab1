-- R6. ARGV: lane, last answered turn, lease.
--- include script/prelude, script/clock, script/schema

local entry = call('HGET', K.lanes, ARGV[1])
if not entry or tonumber(string.match(entry, '^%d+') or -1) < tonumber(ARGV[2]) then
  return redis.error_reply('FORGOTTEN ' .. ARGV[1])
end
call('ZADD', K.leases, ms(now + ARGV[3]), ARGV[1])
return call('HGET', K.gone, ARGV[1])
