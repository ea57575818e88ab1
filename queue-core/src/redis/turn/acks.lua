-- Reads the acks of a turn: nothing is believed but the tag, and nothing written before all of them are looked at.

-- All that are done; those of which nothing is kept; and the groups of which a record is.
local acked, gone, keeps = {}, {}, {}
local from = 5
--- with kept
from = 7
--- end
--- with all
-- Positions of endings that are stale, and what the lane has answered for with them.
local stale, answered, position = {}, {}, 0
from = 9 + ARGV[8] + (ARGV[8] == '0' and 0 or 1)
local others_from, others = from + 1, tonumber(ARGV[from])
from, position = others_from + 5 * others, others
--- include turn/used
-- Of jobs that are not kept, those that somebody watches are kept for a while, with their results: there who waits reads them.
local function leave(own, places, results)
  local waits = has('w') and call('ZMSCORE', K.watched, unpack(own)) or {}
  local kept, at_places, sizes = {}, {}, {}
  for at, id in ipairs(own) do
    if waits[at] then
      kept[#kept + 1], at_places[#kept + 1] = id, places[at]
      sizes[places[at]] = call('HSTRLEN', K.jobs, id)
    else
      gone[#gone + 1] = id
    end
  end
  if #kept > 0 then
    keeps[#keeps + 1] = { ids = kept, ms = C.watched_keep_ms, results = results, sizes = sizes, places = at_places }
  end
end
--- end

while from <= #ARGV do
  local claim, keep_ms = ARGV[from], ''
  --- with kept
  from, keep_ms = from + 1, ARGV[from + 1]
  --- end
  local n = tonumber(ARGV[from + 1])
  local own = { unpack(ARGV, from + 2, from + 1 + n) }
  local tag, tags = lane .. ':' .. claim, call('HMGET', K.active, unpack(own))
  from = from + 2 + n
  --- with all
  local places, mine = {}, 0
  for at = 1, n do
    if tags[at] == tag then
      mine = mine + 1
      own[mine], places[mine] = own[at], at
    else
      stale[#stale + 1] = position + at - 1
      answered[own[at] .. ':' .. claim] = true
    end
  end
  for at = mine + 1, n do
    own[at] = nil
  end
  position = position + n
  --- without all
  local places = nil
  for at = 1, n do
    if tags[at] ~= tag then
      return false
    end
  end
  --- end
  for at = 1, #own do
    acked[#acked + 1] = own[at]
    --- without all
    if keep_ms == '' then
      gone[#gone + 1] = own[at]
    end
    --- end
  end
  --- with kept
  local results = { unpack(ARGV, from + 1, from + ARGV[from]) }
  from = from + 1 + #results
  if keep_ms ~= '' then
    if #own > 0 then
      keeps[#keeps + 1] = { ids = own, ms = keep_ms, results = results, sizes = sizes_of(ARGV[from]), places = places }
    end
    from = from + 1
  end
  --- end
  --- with all
  if keep_ms == '' and #own > 0 then
    leave(own, places, results)
  end
  --- end
end
