-- Marks a queue as followed by a watcher.
-- ARGV[1]  duration  the validity of the mark in ms
-- Returns: nothing if the queue does not exist; or:
--     the number of the last transition;
--     1 if the queue was marked already, or 0;
--     the life of this server with the number of times that a mark was set: between two marks no
--       transition was recorded
-- Errors: BEHIND, FEATURE, SCHEMA
--- include script/prelude, script/clock, script/bits, script/guard, script/incarnation

if not head[1] then
  return false
end
local behind = unknown_to_a_lane('v')
if behind then
  return redis.error_reply('BEHIND ' .. behind)
end
local upto, asked = whole(call('HGET', K.meta, 'followed') or ''), now + math.min(whole(ARGV[1]), C.followed_ms)
local was_valid = has('v') and upto > now and upto <= now + C.followed_ms
set_bit('v')
local begun = was_valid and whole(call('HGET', K.meta, 'follows') or '') or call('HINCRBY', K.meta, 'follows', 1)
call('HSET', K.meta, 'followed', ms(was_valid and math.max(upto, asked) or asked))
return { ms(whole(call('HGET', K.meta, 'transitions') or '')), was_valid and 1 or 0, incarnation_of_follow_mark(ms(begun)) }
