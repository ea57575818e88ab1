-- Removes all keys of an unused queue.
-- KEYS: all keys of the queue
-- ARGV[1]  remembered  how long chosen ids are remembered, in ms, unless a worker has reported it
-- Returns: the uses of the queue; an empty list if its keys were removed
-- Errors: SCHEMA
--- include script/prelude, script/clock, script/schema

local remembered = string.match(call('HGET', K.meta, 'ages') or '', '^%d+:(%d+)') or ARGV[1]
local aging = string.match(call('HGET', K.meta, 'aging') or '', '^%d+:(.+)$')
-- Without the answers in these entries, a relay would enqueue its rows again.
local has_outbox = call('HLEN', K.producers) > 10000
for _, producer in ipairs(has_outbox and {} or call('HGETALL', K.producers)) do
  has_outbox = has_outbox or string.find(producer, '^%d+#') ~= nil
end
local used = {}
for _, use in ipairs({
  { 'jobs', call('EXISTS', K.jobs) },
  -- The leases of stopped workers have expired.
  { 'workers', call('ZCOUNT', K.leases, '(' .. ms(now), '+inf') },
  { 'schedules', call('EXISTS', K.schedules) },
  -- Declarations of the code are removed with the queue.
  { 'rules of groups', call('HLEN', K.rules) - call('HEXISTS', K.rules, '+') },
  { 'limits', call('EXISTS', K.limits) },
  { 'pauses', (call('EXISTS', K.pauses) == 1 or call('HGET', K.meta, 'paused') == '1') and 1 or 0 },
  { 'aging', aging and cmsgpack.unpack(aging).p and 1 or 0 },
  { 'given ids', call('ZCOUNT', K.remembered, '(' .. ms(now - whole(remembered)), '+inf') },
  { 'unique keys', call('ZCOUNT', K.within, '(' .. ms(now), '+inf') },
  { 'outboxes', has_outbox and 1 or 0 },
}) do
  if use[2] > 0 then
    used[#used + 1] = use[1]
  end
end
if #used == 0 then
  for _, key in ipairs(KEYS) do
    -- These belong to the topic of the same name.
    if key ~= K.log and key ~= K.topic and key ~= K.subscriptions then
      call('UNLINK', key)
    end
  end
end
return used
