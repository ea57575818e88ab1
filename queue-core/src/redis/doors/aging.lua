-- Aging raises the priority of waiting jobs. `rising` has the ready jobs whose priority may rise,
-- with the time of the next rise. `risen` has the priority that a ready job has reached. A job that
-- starts or is removed leaves both. The interval is the first part of `aging` in `meta`, in
-- milliseconds.
--- include script/tools

local interval = nil

-- The interval of aging in milliseconds; 0: the queue has no aging.
local function aging_interval()
  interval = interval or has('o') and whole(string.match(call('HGET', K.meta, 'aging') or '', '^%d+') or '') or 0
  return interval
end

-- The current priorities of jobs, including aging.
local function levels_of(ids, from, to)
  local levels = call('HMGET', K.priority, unpack(ids, from, to))
  for at, risen in ipairs(has('o') and call('HMGET', K.risen, unpack(ids, from, to)) or {}) do
    levels[at] = risen or levels[at]
  end
  return levels
end

-- The time of a rise. Its fraction of a millisecond keeps the order of jobs that rise in the same
-- millisecond.
local function next_raise_at(at, number)
  return string.format('%.17g', at + (2048 + number) % 4096 / 4096)
end

-- Starts the aging of jobs that were pushed to an end of the list.
local function start_aging(ids, at_head)
  local n, pairs_ = #ids, {}
  if aging_interval() == 0 or n == 0 then
    return
  end
  local number = call('HINCRBY', K.meta, at_head and 'rise_head' or 'rise_tail', at_head and -n or n)
  for from = 1, n, PIECE do
    local priorities = call('HMGET', K.priority, unpack(ids, from, math.min(from + PIECE - 1, n)))
    for at, priority in ipairs(priorities) do
      if priority ~= '0' then
        local nth = from + at - 1
        pairs_[#pairs_ + 1] = next_raise_at(now + aging_interval(), at_head and number + n - nth or number - n + nth)
        pairs_[#pairs_ + 1] = ids[nth]
      end
    end
  end
  call_in_pieces('ZADD', K.rising, pairs_)
end

-- Ends the aging of jobs that are no longer ready.
local function stop_aging(ids)
  call_in_pieces('ZREM', K.rising, ids)
  call_in_pieces('HDEL', K.risen, ids)
end
