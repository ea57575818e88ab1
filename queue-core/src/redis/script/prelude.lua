-- What every script begins with. K and a kind (`jobs`, `meta`) stand for the key of that kind, C
-- and a name for a number or a text that the library in Rust has as well.

local call = redis.call
local unpack, byte = unpack, string.byte

-- Many elements are given to a command in pieces of this size: Lua cannot unpack more than about
-- 8000.
local PIECE = 1000

-- A small hash is a list to Redis, searched from its head for each of hundreds of jobs. A value
-- longer than `hash-max-listpack-value` makes it a table until it is empty: it goes first, and what
-- belongs there takes its place.
local LONG = '-----------------------------------------------------------------'

-- Pairs of a field and a value, into a hash that is a table. Gives how many fields are new in it.
local function put_all(key, pairs_)
  local new = 0
  for from = 1, #pairs_, PIECE do
    new = new + call('HSET', key, pairs_[from], LONG, unpack(pairs_, from, math.min(from + PIECE - 1, #pairs_)))
  end
  return new
end

-- Another program may have written anything to these keys. A script never stops half-way because of
-- that, and does not refuse other jobs: an invalid number counts as zero, an invalid list as empty.

-- A whole number from 0 to 2^52, which a double holds exactly: it is 140,000 years in milliseconds.
local FOREVER = C.forever

local function whole(value)
  local number = tonumber(value)
  if not number or not (number > 0) then
    return 0
  end
  return math.floor(math.min(number, FOREVER))
end

-- The text of a whole number. Whatever gives a number to a command writes it as a fraction first,
-- and at three times the cost.
local function ms(value)
  return string.format(value < FOREVER and '%d' or '%.0f', value)
end

local function unpacked(stored)
  if not stored then
    return nil
  end
  local ok, value = pcall(cmsgpack.unpack, stored)
  return ok and type(value) == 'table' and value or nil
end

-- A packed list of pairs of texts.
local function unpacked_pairs(stored)
  local list = {}
  for _, item in ipairs(unpacked(stored) or {}) do
    if type(item) == 'table' and type(item[1]) == 'string' and type(item[2]) == 'string' then
      list[#list + 1] = { item[1], item[2] }
    end
  end
  return list
end

-- Adds to a counter of the queue.
local function count(name, by)
  if by ~= 0 then
    local answer = redis.pcall('HINCRBY', K.counters, name, by == 1 and '1' or ms(by))
    if type(answer) == 'table' and answer.err then
      call('HSET', K.counters, name, ms(math.max(by, 0)))
    end
  end
end

-- Whether an id can be one of ours.
local function is_id(id)
  if byte(id) == 61 then -- '='
    return #id <= 129 and string.find(id, '^=[%w._-]+$') ~= nil
  end
  return #id == 16
end
