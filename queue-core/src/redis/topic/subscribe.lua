-- Makes a subscription, or notes which types of event its workers know.
-- ARGV: name; its begin: 'now', 'start' or a time in ms; types joined by commas, or '' to leave them.
-- Answers: 1 it was made, 0 it was there.
--- include script/prelude, script/schema, script/clock, topic/subscription

local name, begin, types = ARGV[1], ARGV[2], ARGV[3]
local of = subscription_of(name)
if of then
  if types ~= '' and types ~= of.types then
    of.types = types
    put_subscription(name, of)
  end
  return 0
end
of = { cursor = '0-0', lost = 0, made = ms(now), begin = begin, types = types ~= '' and types or '-' }
local length, added = length_of_log()
if begin == 'start' then
  of.position = added - length
elseif begin == 'now' then
  local last = call('XREVRANGE', K.log, '+', '-', 'COUNT', '1')[1]
  of.cursor, of.position = last and last[1] or of.cursor, added
else
  -- Behind the last entry that there can be in the millisecond before.
  of.cursor = whole(begin) > 0 and ms(whole(begin) - 1) .. '-18446744073709551615' or of.cursor
end
put_subscription(name, of)
redis.pcall('SPUBLISH', string.sub(K.meta, 1, -6) .. name .. ':hint', '@' .. ms(micros))
return 1
