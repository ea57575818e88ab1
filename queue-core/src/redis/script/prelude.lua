-- The beginning of every script. `K.` and a kind (`K.jobs`, `K.meta`) is replaced by the key of
-- that kind. `C.` and a name is replaced by a constant of the library.

local call = redis.call
local unpack, byte = unpack, string.byte

-- Arguments are passed to a command in pieces of this size, because Lua cannot unpack more than
-- about 8000 values.
local PIECE = 1000

-- Redis stores a small hash as a list and searches the list from its head for each job. A value
-- longer than `hash-max-listpack-value` converts the hash to a table until the hash is empty. This
-- value is written first for that purpose, and the real value then replaces it.
local LONG = '-----------------------------------------------------------------'

-- Writes pairs of a field and a value into a hash that is stored as a table. Returns the number of
-- new fields.
local function set_fields(key, pairs_)
  local new = 0
  for from = 1, #pairs_, PIECE do
    new = new + call('HSET', key, pairs_[from], LONG, unpack(pairs_, from, math.min(from + PIECE - 1, #pairs_)))
  end
  return new
end

-- Another program may have written any value to these keys. This never stops a script half-way and
-- never rejects other jobs: an invalid number counts as zero, and an invalid list as empty.

-- The largest number is 2^52, which a double represents exactly: 140,000 years in milliseconds.
local FOREVER = C.forever

local function whole(value)
  local number = tonumber(value)
  if not number or not (number > 0) then
    return 0
  end
  return math.floor(math.min(number, FOREVER))
end

-- Formats a whole number. Without this, Lua formats a number argument of a command as a fraction,
-- at three times the cost.
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

-- Whether an id is valid.
local function is_id(id)
  if byte(id) == 61 then -- '='
    return #id <= 129 and string.find(id, '^=[%w._-]+$') ~= nil
  end
  return #id == 16
end
