-- Reads some jobs of one key.
-- ARGV[1]    place   the key to read
-- ARGV[2]    limit   the most jobs to examine
-- ARGV[3]    order   'behind' or 'met'
-- ARGV[4]    score   'behind': the score to continue after; omitted: from the beginning
-- ARGV[5]    member  'behind': the member to continue after, which may have been removed
-- ARGV[4]    cursor  'met': the cursor
-- ARGV[5]    life    'met': the life of the server that has returned the cursor
-- ARGV[6..]  states  'met': the wanted states
-- Returns:
--     'behind': members of a sorted set, in its order: member, score, member, score, and so on
--     'met': jobs in the order of this server. A job that stays in the place is returned, even if
--       it moves within the place. The next cursor ('0' at the end), the life of this server, the
--       number of examined jobs, then pairs of an id and the answer of `shown`.
--- include script/prelude, script/incarnation, people/shown

local HASHES = { jobs = K.jobs, active = K.active, held = K.held, records = K.records }
local SETS = { scheduled = K.scheduled, retry = K.retry, dead = K.dead, parked = K.parked, line = K.line, lapsing = K.lapsing, holds = K.holds }
local place, limit, order = ARGV[1], tonumber(ARGV[2]), ARGV[3]

-- Whether one member is after another one with the same score. The server compares bytes. Lua's `<`
-- would use the locale.
local function is_behind(one, other)
  for at = 1, math.min(#one, #other) do
    local a, b = byte(one, at), byte(other, at)
    if a ~= b then
      return a > b
    end
  end
  return #one > #other
end

local function rank_behind(set, score, last)
  local from = 0
  if score then
    from = call('ZCOUNT', set, '-inf', '(' .. score)
    local upto = call('ZCOUNT', set, '-inf', score)
    while from < upto do
      local middle = math.floor((from + upto) / 2)
      if is_behind(call('ZRANGE', set, middle, middle)[1], last) then
        upto = middle
      else
        from = middle + 1
      end
    end
  end
  return call('ZRANGE', set, from, from + limit - 1, 'WITHSCORES')
end

local function id_of(field, value)
  if place == 'held' then
    return string.match(value, '^%d+:(.*)$') or ''
  end
  return place == 'parked' and (string.match(field, '%z(.*)$') or '') or field
end

-- Reads small pieces, the first with four entries, because each piece reads complete jobs with
-- their results, including unwanted jobs. Each piece of a table from which most jobs were deleted
-- has few entries.
local function scan_piece(cursor, given_by)
  local is_wanted, alive, examined, size, pieces = {}, incarnation(), 0, 0, 0
  for at = 6, #ARGV do
    is_wanted[ARGV[at]] = true
  end
  -- A cursor is valid only on the server that returned it. If INFO is denied, the server is unknown
  -- and assumed to be the same: otherwise the scan would restart at each step and never end.
  cursor = given_by == alive and cursor or '0'
  local answer, command = { '0', alive, 0 }, HASHES[place] and 'HSCAN' or 'ZSCAN'
  repeat
    local fit = examined == 0 and 4 or math.max(1, math.floor((C.max_bytes - size) * examined / math.max(size, 1)))
    local piece = call(command, HASHES[place] or SETS[place], cursor, 'COUNT', ms(math.min(limit - examined, fit, C.scanned_at_once)))
    local items = piece[2]
    cursor, pieces, examined = piece[1], pieces + 1, examined + #items / 2
    for at = 1, #items, 2 do
      local id = id_of(items[at], items[at + 1])
      local job = read_job(id)
      size = size + (job and bytes_of(job) or #items[at + 1])
      if job and is_wanted[job[1]] then
        answer[#answer + 1], answer[#answer + 2] = id, job
      end
    end
  until cursor == '0' or examined >= limit or size >= C.max_bytes or pieces >= C.scanned_pieces
  answer[1], answer[3] = cursor, examined
  return answer
end

if order == 'met' then
  return scan_piece(ARGV[4], ARGV[5])
end
return rank_behind(SETS[place], ARGV[4], ARGV[5])
