-- Subscriptions of a topic, as `subscriptions` has them: `CURSOR POSITION LOST MADE BEGIN TYPES`. The cursor is the id of the last entry that was read, the
-- position how many entries had been added to the log by then (`?`: not known), and the types are joined by commas (`-`: none).

-- Nothing: there is none of this name.
local function subscription_of(name)
  local stored = call('HGET', K.subscriptions, name) or ''
  local cursor, position, lost, made, begin, types = string.match(stored, '^(%d+%-%d+) (%S+) (%d+) (%d+) (%S+) (%S+)$')
  return cursor and { cursor = cursor, position = tonumber(position), lost = whole(lost), made = made, begin = begin, types = types }
end

local function put_subscription(name, of)
  local position = of.position and ms(of.position) or '?'
  call('HSET', K.subscriptions, name, table.concat({ of.cursor, position, ms(of.lost), of.made, of.begin, of.types }, ' '))
end

-- How many entries the log has, and how many were ever added.
local function length_of_log()
  if call('EXISTS', K.log) == 0 then
    return 0, 0
  end
  local info, told = call('XINFO', 'STREAM', K.log), {}
  for at = 1, #info, 2 do
    told[info[at]] = info[at + 1]
  end
  return told.length, told['entries-added'] or told.length
end

-- Counts what was removed from the log, by whatever program, before the subscription had read it.
local function count_lost(of, length, added)
  local gone = added - length
  if of.position and of.position < gone then
    of.lost, of.position = of.lost + gone - of.position, gone
  end
end
