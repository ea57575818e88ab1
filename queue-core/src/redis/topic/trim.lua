-- Removes entries of a topic that its retention does not keep, one step. An entry that a
-- subscription has not read stays until it is older than the limit of the lag.
-- Returns: the number of removed entries, how often a subscription had not read one of them, and 1
--   if there may be more
-- Errors: SCHEMA
--- include script/prelude, script/schema, script/clock, topic/subscription

local settings = call('HMGET', K.topic, 'age', 'count', 'lag', 'bytes')
local age = settings[1] and whole(settings[1]) or C.default_age
local most = settings[2] and whole(settings[2]) or FOREVER
local lag = settings[3] and whole(settings[3]) or C.default_lag

local length, added = length_of_log()
if settings[4] then
  -- The limit in bytes is converted to a number of entries of average size.
  local size = size_of_log()
  most = size > whole(settings[4]) and math.min(most, math.floor(length * whole(settings[4]) / size)) or most
end
local subscriptions = {}
for _, name in ipairs(call('HKEYS', K.subscriptions)) do
  local of = subscription_of(name)
  if of then
    local before = of.lost
    count_lost(of, length, added)
    of.name, of.changed = name, of.lost > before
    subscriptions[#subscriptions + 1] = of
  end
end

-- The cursor of the slowest subscription.
local slowest = nil
for _, of in ipairs(subscriptions) do
  slowest = slowest and is_behind(of.cursor, slowest) and slowest or of.cursor
end

local gone, lost, bytes, stays, ids = 0, 0, 0, false, {}
local from = '-'
while gone < C.trim_step and bytes < C.max_bytes and not stays do
  local asked = entries_to_read(gone, bytes)
  local entries = call('XRANGE', K.log, from, '+', 'COUNT', ms(asked))
  for _, entry in ipairs(entries) do
    local id, old = entry[1], now - tonumber(string.match(entry[1], '^%d+'))
    local is_over = old > age or length - gone > most
    stays = not is_over or old <= lag and slowest and is_behind(id, slowest)
    if stays then
      break
    end
    gone, from = gone + 1, '(' .. id
    ids[gone] = id
    for _, value in ipairs(entry[2]) do
      bytes = bytes + #value
    end
  end
  stays = stays or #entries < asked
end
-- Each subscription has lost the removed entries after its cursor.
for _, of in ipairs(slowest and gone > 0 and is_behind(ids[gone], slowest) and subscriptions or {}) do
  local low, high = 1, gone + 1
  while low < high do
    local middle = math.floor((low + high) / 2)
    if is_behind(ids[middle], of.cursor) then
      high = middle
    else
      low = middle + 1
    end
  end
  local missed = gone + 1 - low
  if missed > 0 then
    lost, of.lost, of.cursor, of.changed = lost + missed, of.lost + missed, ids[gone], true
    of.position, of.upto_position = of.position and of.position + missed, nil
  end
end
if gone > 0 then
  call('XTRIM', K.log, 'MAXLEN', '=', ms(length - gone))
end
for _, of in ipairs(subscriptions) do
  if of.changed then
    put_subscription(of.name, of)
  end
end
return { gone, lost, stays and 0 or 1 }
