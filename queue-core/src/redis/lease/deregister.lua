-- Deletes the data of lanes, and with the last lane of a worker the data of the worker. The field
-- of a worker in `knows` counts its lanes.
--- include script/tools

-- The worker of a lane: the first part of its name.
local function worker_of(lane)
  return string.match(lane, '^[^.]*')
end

local function deregister(lanes)
  for command, keys in pairs({ HDEL = { K.lanes, K.gone, K.knows }, ZREM = { K.leases, K.durations } }) do
    for _, key in ipairs(keys) do
      call_in_pieces(command, key, lanes)
    end
  end
  for _, lane in ipairs(lanes) do
    local worker = worker_of(lane)
    local left = whole(call('HGET', K.knows, worker) or '') - 1
    if left > 0 then
      call('HSET', K.knows, worker, ms(left))
    else
      for _, key in ipairs({ K.knows, K.workers, K.loads, K.asked }) do
        call('HDEL', key, worker)
      end
    end
  end
end
