-- A lane goes: all that is stored of it goes with it, and with the last lane of a worker what is stored of the worker.
--- include script/tools

-- The worker of a lane: the first part of its name.
local function worker_of(lane)
  return string.match(lane, '^[^.]*')
end

-- The workers that have a lane, as a set.
local function with_lanes()
  local workers = {}
  for _, lane in ipairs(call('HKEYS', K.lanes)) do
    workers[worker_of(lane)] = true
  end
  return workers
end

local function deregister(lanes)
  for command, keys in pairs({ HDEL = { K.lanes, K.gone, K.knows }, ZREM = { K.leases, K.terms } }) do
    for _, key in ipairs(keys) do
      many(command, key, lanes)
    end
  end
  local stay = #lanes > 0 and with_lanes()
  for _, lane in ipairs(lanes) do
    if not stay[worker_of(lane)] then
      call('HDEL', K.workers, worker_of(lane))
      call('HDEL', K.loads, worker_of(lane))
      call('HDEL', K.asked, worker_of(lane))
    end
  end
end
