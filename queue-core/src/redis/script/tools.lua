-- Functions that most scripts use.

-- The time after a delay. It is rounded up to a whole millisecond, so that no job starts early.
local function time_after_delay(delay)
  delay = tonumber(delay)
  return delay > 0 and math.ceil(micros / 1000) + delay or now
end

-- Calls a variadic command with the elements of a list, in pieces. Returns the last answer.
local function call_in_pieces(command, key, list)
  local answer = nil
  for from = 1, #list, PIECE do
    answer = call(command, key, unpack(list, from, math.min(from + PIECE - 1, #list)))
  end
  return answer
end

local function set_field(key, field, value)
  call('HSET', key, field, LONG, field, value)
end

-- The lane of a receipt, which is the part before the claim number.
local function lane_of(receipt)
  return string.match(receipt, '^([%w._-]+):%d+$')
end
