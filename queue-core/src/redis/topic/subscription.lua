-- Subscriptions of a topic. `subscriptions` has `CURSOR POSITION LOST MADE BEGIN TYPES UNKNOWN
-- SKIPPED REWIND` for each.
-- - CURSOR is the id of the last entry that was read. POSITION is the number of entries that had
--   been added to the log by then (`?`: unknown).
-- - TYPES are joined by commas (`-`: none). UNKNOWN is the handling of events of other types,
--   `park` or `skip`. SKIPPED counts the skipped events.
-- - REWIND is `TOKEN/UPTO/POSITION` during a rewind: its token, the cursor before it, and the
--   position of that cursor. After a rewind it is `TOKEN:UPTO:POSITION` until the cursor has
--   reached UPTO again, and then `TOKEN`. Without a rewind it is `-`.

-- nil: the subscription does not exist.
local function subscription_of(name)
  local stored = call('HGET', K.subscriptions, name) or ''
  local cursor, position, lost, made, begin, types, unknown_types, skipped, rewind =
    string.match(stored, '^(%d+%-%d+) (%S+) (%d+) (%d+) (%S+) (%S+) (%l+) (%d+) (%S+)$')
  if not cursor then
    return nil
  end
  local token, upto, upto_position = string.match(rewind, '^([%w-]+)/(%d+%-%d+)/(%S+)$')
  local ended = string.match(rewind, '^[%w-]+$')
  if not token and not ended then
    ended, upto, upto_position = string.match(rewind, '^([%w-]+):(%d+%-%d+):(%S+)$')
  end
  return {
    cursor = cursor, position = tonumber(position), lost = whole(lost), made = made, begin = begin, types = types,
    unknown = unknown_types, skipped = whole(skipped),
    token = token, upto = upto, upto_position = tonumber(upto_position),
    ended = ended ~= '-' and ended or nil,
  }
end

-- Whether an entry or a cursor is after another one.
local function is_behind(one, other)
  local at, seq = string.match(one, '^(%d+)%-(%d+)$')
  local other_at, other_seq = string.match(other, '^(%d+)%-(%d+)$')
  at, other_at = tonumber(at), tonumber(other_at)
  if at ~= other_at then
    return at > other_at
  end
  -- Numbers of 64 bits, which a double cannot represent exactly.
  return #seq > #other_seq or #seq == #other_seq and seq > other_seq
end

local function put_subscription(name, of)
  local function number_of(position)
    return position and ms(position) or '?'
  end
  local rewind = of.token or of.ended or '-'
  if of.upto and (of.token or is_behind(of.upto, of.cursor)) then
    rewind = table.concat({ rewind, of.upto, number_of(of.upto_position) }, of.token and '/' or ':')
  end
  local words = { of.cursor, number_of(of.position), ms(of.lost), of.made, of.begin, of.types, of.unknown, ms(of.skipped), rewind }
  call('HSET', K.subscriptions, name, table.concat(words, ' '))
end

-- The number of entries in the log, the number of entries that were ever added, and the last
-- generated id.
local function length_of_log()
  if call('EXISTS', K.log) == 0 then
    return 0, 0
  end
  local info, fields = call('XINFO', 'STREAM', K.log), {}
  for at = 1, #info, 2 do
    fields[info[at]] = info[at + 1]
  end
  return fields.length, fields['entries-added'] or fields.length, fields['last-generated-id']
end

-- How many entries a step reads next, after it has read `read` entries with `bytes` bytes. The size
-- of the first entries is unknown; the others are assumed to be of the same size.
local function entries_to_read(read, bytes)
  local fit = read == 0 and 4 or math.floor((C.max_bytes - bytes) * read / math.max(bytes, 1))
  return math.max(math.min(fit, 50, C.trim_step - read), 1)
end

-- The approximate size of the log in the memory of the server, in bytes.
local function size_of_log()
  return call('MEMORY', 'USAGE', K.log, 'SAMPLES', '500') or 0
end

-- Counts entries that were removed from the log before the subscription had read them.
local function count_lost(of, length, added)
  local gone = added - length
  if of.position and of.position < gone then
    of.lost, of.position = of.lost + gone - of.position, gone
  end
end
