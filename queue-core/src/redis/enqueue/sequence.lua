-- The number of an enqueue (R12): one that was answered before is answered with the same, and nothing of it is stored again.
-- ARGV: producer, seq. The producer's entry is the last number; behind a colon the answers, if not all jobs were stored; if these name ids, behind a
-- colon the ids, and a semicolon; and at last the mark of `sweep.lua`, if it has looked since.

local entry = call('HGET', K.producers, ARGV[1]) or ''
local last, stored, ids = string.match(entry, '^%d+$'), '', ''
if not last then
  last, stored, ids = string.match(entry, '^(%d+):?(%d*)(.*)$')
  if last and not string.find(ids, '^%??$') and not string.find(ids, '^:.*;%??$') then
    last = nil
  end
end
if not last then
  return redis.error_reply('FORGOTTEN ' .. ARGV[1])
elseif last - ARGV[2] > 0 then
  return redis.error_reply('OLD ' .. ARGV[1] .. ' ' .. ARGV[2])
elseif last - ARGV[2] == 0 then
  ids = unpacked(string.match(ids, '^:(.*);'))
  return ids and { stored, unpack(ids) } or stored ~= '' and stored or false
end
