-- Checks the number of an enqueue (R12). If the number was answered before, the script returns the
-- same answer and stores nothing.
-- ARGV[1]  producer  the name of the producer
-- ARGV[2]  seq       the number of the enqueue; of a relay also `#` and a digest in hexadecimal.
--                    The same number with another digest is another request.
--
-- The entry of a producer is the last number with its digest. If not all jobs were stored, a colon
-- and the answers follow. If the answers name ids, a colon, the ids and a semicolon follow. The
-- marks of `sweep.lua` are at the end.

local entry = call('HGET', K.producers, ARGV[1]) or ''
local last, of, stored, ids = string.match(entry, '^%d+$'), '', '', ''
if not last then
  last, of, stored, ids = string.match(entry, '^(%d+)(#?%x*):?(%d*)(.*)$')
  if last and not string.find(ids, '^%?*$') and not string.find(ids, '^:.*;%?*$') then
    last = nil
  end
end
local seq, request = string.match(ARGV[2], '^(%d+)(.*)$')
if not last then
  return redis.error_reply('FORGOTTEN ' .. ARGV[1])
elseif last - seq > 0 or last - seq == 0 and of ~= request then
  return redis.error_reply('OLD ' .. ARGV[1] .. ' ' .. seq)
elseif last - seq == 0 then
  ids = unpacked(string.match(ids, '^:(.*);'))
  return ids and { stored, unpack(ids) } or stored ~= '' and stored or false
end
