-- Marks a queue as one that a watcher follows.
--
-- Inputs
--   for how long, in ms.
-- Output
--   the number of the last transition, whether a mark stood, and the life of this server with the
--   number of times that a mark began to stand: in between nothing was told. Or nothing: the queue
--   does not exist.
-- Errors
--   BEHIND: a lane does not know a feature bit
--   FEATURE: a feature bit that this library does not know
--   SCHEMA: another schema number
--- include script/prelude, script/clock, script/bits, script/guard, script/life

if not head[1] then
  return false
end
local behind = unknown_to_a_lane('v')
if behind then
  return redis.error_reply('BEHIND ' .. behind)
end
local upto, asked = whole(call('HGET', K.meta, 'followed') or ''), now + math.min(whole(ARGV[1]), C.followed_ms)
local stood = has('v') and upto > now and upto <= now + C.followed_ms
set_bit('v')
local begun = stood and whole(call('HGET', K.meta, 'follows') or '') or call('HINCRBY', K.meta, 'follows', 1)
call('HSET', K.meta, 'followed', ms(stood and math.max(upto, asked) or asked))
return { ms(whole(call('HGET', K.meta, 'transitions') or '')), stood and 1 or 0, life_of_follow_mark(ms(begun)) }
