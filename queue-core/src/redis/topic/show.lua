-- Reads a topic.
-- Returns:
--     the current time, the entries of the log, the entries that were ever added, about how many
--       bytes the log has;
--     the last id or '', the id of the first entry or '';
--     age, count, lag and bytes of the retention, each or '';
--     of each subscription its name, its stored record, its unread entries or '', its lost entries,
--       the id of the next entry or ''
-- Errors: SCHEMA
--- include script/prelude, script/schema, script/clock, topic/subscription

local length, added, last = length_of_log()
local first = call('XRANGE', K.log, '-', '+', 'COUNT', '1')[1]
local settings = call('HMGET', K.topic, 'age', 'count', 'lag', 'bytes')
local answer = { ms(now), ms(length), ms(added), ms(size_of_log()), last or '', first and first[1] or '' }
for at = 1, 4 do
  answer[#answer + 1] = settings[at] or ''
end
for _, name in ipairs(call('HKEYS', K.subscriptions)) do
  local of = subscription_of(name)
  if of then
    count_lost(of, length, added)
    local following = call('XRANGE', K.log, '(' .. of.cursor, '+', 'COUNT', '1')[1]
    answer[#answer + 1] = name
    answer[#answer + 1] = call('HGET', K.subscriptions, name)
    answer[#answer + 1] = not following and '0' or of.position and ms(added - of.position) or ''
    answer[#answer + 1] = ms(of.lost)
    answer[#answer + 1] = following and following[1] or ''
  end
end
return answer
