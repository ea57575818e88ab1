-- The number of an enqueue (R12): one that was answered before is answered with the same, and nothing of it is stored again.
-- ARGV: producer, seq.

local entry = call('HGET', K.producers, ARGV[1])
local last, stored = tonumber(entry), ''
if entry and not last then
  last, stored = string.match(entry, '^(%d+):?(%d*)%??$')
  last = tonumber(last)
end
if not last then
  return redis.error_reply('FORGOTTEN ' .. ARGV[1])
elseif last - ARGV[2] > 0 then
  return redis.error_reply('OLD ' .. ARGV[1] .. ' ' .. ARGV[2])
elseif last - ARGV[2] == 0 then
  return stored ~= '' and stored or false
end
