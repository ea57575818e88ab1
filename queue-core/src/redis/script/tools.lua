-- What most scripts use besides.

-- So long from now. A part of a millisecond counts as a whole one, so that nothing starts early.
local function after(delay)
  delay = tonumber(delay)
  return delay > 0 and math.ceil(micros / 1000) + delay or now
end

-- One variadic command over a list, in pieces, after some fixed arguments; returns the last answer.
local function many(command, key, list)
  local answer = nil
  for from = 1, #list, PIECE do
    answer = call(command, key, unpack(list, from, math.min(from + PIECE - 1, #list)))
  end
  return answer
end

local function put(key, field, value)
  call('HSET', key, field, LONG, field, value)
end

-- The first part of a receipt, the lane: a claim number follows.
local function lane_of(receipt)
  return string.match(receipt, '^([%w._-]+):%d+$')
end
