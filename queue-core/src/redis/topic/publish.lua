-- Appends events to the log of a topic, and notifies its subscriptions (R12 for events).
-- ARGV[1]    producer  the name of the producer
-- ARGV[2]    seq       the number of the publication
-- ARGV[3..]  events    of each event type, group or '', payload, headers as a MessagePack map or
--                      '', id, digest of a given id or '', tags as a MessagePack map or ''
-- Returns: nothing: all events are in the log
-- Errors: FORGOTTEN, OLD, SCHEMA
-- Events: hint, in the queue of each subscription
--- include script/prelude, script/schema, script/clock, enqueue/sequence

for at = 3, #ARGV, 7 do
  local fields = { 'type', ARGV[at], 'payload', ARGV[at + 2], 'id', ARGV[at + 4] }
  for behind, name in pairs({ [1] = 'key', [3] = 'headers', [5] = 'digest', [6] = 'tags' }) do
    if ARGV[at + behind] ~= '' then
      fields[#fields + 1], fields[#fields + 2] = name, ARGV[at + behind]
    end
  end
  call('XADD', K.log, '*', unpack(fields))
end
call('HSET', K.producers, ARGV[1], ARGV[2])

-- The channel of a subscription differs from the channel of its topic only in the name before the
-- colon.
local names, channels = call('HKEYS', K.subscriptions), string.sub(K.meta, 1, -6)
for _, name in ipairs(names) do
  redis.pcall('SPUBLISH', channels .. name .. ':hint', '@' .. ms(micros))
end
if #names == 0 then
  -- No worker trims the log of a topic without subscriptions.
  local settings = call('HMGET', K.topic, 'age', 'count', 'bytes')
  call('XTRIM', K.log, 'MINID', '~', ms(math.max(now - (settings[1] and whole(settings[1]) or C.default_age), 0)), 'LIMIT', '500')
  if settings[2] then
    call('XTRIM', K.log, 'MAXLEN', '~', ms(whole(settings[2])), 'LIMIT', '500')
  end
  if settings[3] then
    local size, most = call('MEMORY', 'USAGE', K.log, 'SAMPLES', '100') or 0, whole(settings[3])
    if size > most then
      call('XTRIM', K.log, 'MAXLEN', '~', ms(math.floor(call('XLEN', K.log) * most / size)), 'LIMIT', '500')
    end
  end
end
return false
