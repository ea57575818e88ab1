-- Failures by fingerprint. Each has a packed list: first and last time, count, pattern, message,
-- tasks and releases as pairs of a name and a count, and ids of jobs.

-- Adds counts by name. The reported names come last; if there are too many, the first are dropped.
local function count_names(stored, reported, most)
  local names = {}
  local function add_name(one)
    if type(one) ~= 'table' or type(one[1]) ~= 'string' then
      return
    end
    local known = 0
    for at, other in ipairs(names) do
      if other[1] == one[1] then
        known = other[2]
        table.remove(names, at)
        break
      end
    end
    names[#names + 1] = { one[1], known + whole(one[2]) }
  end
  for _, some in ipairs({ table_or_empty(stored), table_or_empty(reported) }) do
    for _, one in ipairs(some) do
      add_name(one)
    end
  end
  while #names > most do
    table.remove(names, 1)
  end
  return names
end

-- The same for ids.
local function name_jobs(stored, reported)
  local pairs_ = {}
  for _, some in ipairs({ table_or_empty(stored), table_or_empty(reported) }) do
    for _, id in ipairs(some) do
      pairs_[#pairs_ + 1] = { id, 1 }
    end
  end
  local ids = {}
  for at, one in ipairs(count_names({}, pairs_, C.jobs_named)) do
    ids[at] = one[1]
  end
  return ids
end

-- The time at which each pattern was last seen. It is read only if there is no room, and only once.
local last_seen = nil

-- Makes room for one more pattern: removes the patterns with the oldest last failure.
local function make_room()
  if not last_seen then
    if call('HLEN', K.failures) < C.failure_patterns then
      return
    end
    last_seen = {}
    local stored = call('HGETALL', K.failures)
    for at = 1, #stored, 2 do
      last_seen[stored[at]] = whole((unpacked(stored[at + 1]) or {})[2])
    end
  end
  local order = {}
  for print in pairs(last_seen) do
    order[#order + 1] = print
  end
  table.sort(order, function(one, other)
    local first, second = last_seen[one], last_seen[other]
    return first < second or first == second and one < other
  end)
  for at = 1, #order - C.failure_patterns + 1 do
    call('HDEL', K.failures, order[at])
    last_seen[order[at]] = nil
  end
end

-- Adds what a worker has counted for a pattern since its last report.
local function count_failure(print, reported)
  local row = unpacked(call('HGET', K.failures, print))
  if not row then
    make_room()
    row = { now, now, 0 }
  end
  local kind = {
    whole(row[1]), math.floor(now), whole(row[3]) + whole(reported[3]), reported[4], reported[5],
    count_names(row[6], reported[6], C.tasks_named), count_names(row[7], reported[7], C.releases_named), name_jobs(row[8], reported[8]),
  }
  call('HSET', K.failures, print, cmsgpack.pack(kind))
  if last_seen then
    last_seen[print] = now
  end
end
