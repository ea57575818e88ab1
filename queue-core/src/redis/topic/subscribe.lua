-- Creates a subscription, or records which types of event its workers know.
-- ARGV[1]  name           the name of the subscription
-- ARGV[2]  begin          'now', 'start' or a time in ms
-- ARGV[3]  types          types separated by commas, or '' to keep them
-- ARGV[4]  unknown_types  the handling of other types, or '' to keep it
-- Returns: 1 if it was created, 0 if it existed
-- Errors: SCHEMA
-- Events: hint, in the queue of the subscription
--- include script/prelude, script/schema, script/clock, topic/subscription

local name, begin, types, unknown_types = ARGV[1], ARGV[2], ARGV[3], ARGV[4]
-- Types are never removed: events of a removed type might be skipped later, because workers of an
-- older release know fewer types.
local function add_declared_types(known, declared)
  local types, seen = {}, { ['-'] = true }
  for event in string.gmatch(known .. ',' .. declared, '[^,]+') do
    if not seen[event] then
      seen[event], types[#types + 1] = true, event
    end
  end
  table.sort(types)
  return table.concat(types, ',')
end

local of = subscription_of(name)
if of then
  local before = { of.types, of.unknown }
  of.unknown = unknown_types ~= '' and unknown_types or of.unknown
  if types ~= '' then
    of.types = add_declared_types(of.types, types)
  end
  if of.types ~= before[1] or of.unknown ~= before[2] then
    put_subscription(name, of)
  end
  return 0
end
of = { cursor = '0-0', lost = 0, made = ms(now), begin = begin, types = types ~= '' and types or '-',
  unknown = unknown_types ~= '' and unknown_types or 'park', skipped = 0 }
local length, added = length_of_log()
if begin == 'start' then
  of.position = added - length
elseif begin == 'now' then
  local last = call('XREVRANGE', K.log, '+', '-', 'COUNT', '1')[1]
  of.cursor, of.position = last and last[1] or of.cursor, added
else
  -- The largest id of the millisecond before.
  of.cursor = whole(begin) > 0 and ms(whole(begin) - 1) .. '-18446744073709551615' or of.cursor
end
put_subscription(name, of)
redis.pcall('SPUBLISH', string.sub(K.meta, 1, -6) .. name .. ':hint', '@' .. ms(micros))
return 1
