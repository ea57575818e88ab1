-- Reads the acks of a turn. Only the receipt decides whether an ack is accepted. All acks are
-- checked before the script writes anything.

-- All done jobs; the jobs without a record; and the groups of jobs with a record.
local acked, gone, keeps = {}, {}, {}
-- The positions of stale endings, and the deliveries whose stale endings this lane has submitted.
local stale, answered, position = {}, {}, 0
local from = 9 + ARGV[8] + (ARGV[8] == '0' and 0 or 1)
local others_from, others = from + 1, tonumber(ARGV[from])
from, position = others_from + 5 * others, others
--- include turn/used
-- A watched job is kept for a while with its result even if jobs of its task are not kept: the
-- waiting program reads the result from its record.
local function keep_watched_results(own, places, results)
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

while from <= #ARGV do
  local claim, keep_ms, n = ARGV[from], ARGV[from + 1], tonumber(ARGV[from + 2])
  local own = { unpack(ARGV, from + 3, from + 2 + n) }
  local receipt, receipts = lane .. ':' .. claim, call('HMGET', K.active, unpack(own))
  from = from + 3 + n
  local places, mine = {}, 0
  for at = 1, n do
    if receipts[at] == receipt then
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
  for at = 1, #own do
    acked[#acked + 1] = own[at]
  end
  local results = { unpack(ARGV, from + 1, from + ARGV[from]) }
  from = from + 1 + #results
  if keep_ms ~= '' then
    if #own > 0 then
      keeps[#keeps + 1] = { ids = own, ms = keep_ms, results = results, sizes = sizes_of(ARGV[from]), places = places }
    end
    from = from + 1
  elseif #own > 0 then
    keep_watched_results(own, places, results)
  end
end
