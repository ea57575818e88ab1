-- Sends a request to a worker that has reported its resource usage in this queue.
-- ARGV[1]  worker   the name of the worker
-- ARGV[2]  number   the number of the request
-- ARGV[3]  request  the request
-- Returns: 1; 0 if there is another request with this number or a larger one; -1 if the worker has
--   reported nothing in this queue
-- Errors: SCHEMA
--- include script/prelude, script/clock, script/schema

if call('HEXISTS', K.loads, ARGV[1]) == 0 then
  return -1
end
local stored = call('HGET', K.asked, ARGV[1])
local known = unpacked(stored)
if stored ~= ARGV[3] and known and whole(known[2] or '') >= tonumber(ARGV[2]) then
  return 0
end
call('HSET', K.asked, ARGV[1], ARGV[3])
return 1
