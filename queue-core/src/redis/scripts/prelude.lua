-- What every script begins with. K and a kind (jobs, meta) stand for the key of that kind.

local call = redis.call
local unpack = unpack

-- The broker's clock, in milliseconds: read once, and then the same for the whole script.
local time = call('TIME')
local now = time[1] * 1000 + math.floor(time[2] / 1000)

local SCHEMA = '1'

-- Many elements are given to a command in pieces of this size: Lua cannot unpack more than about 8000.
local PIECE = 1000

local function each_piece(list, work)
  for from = 1, #list, PIECE do
    work(from, math.min(from + PIECE - 1, #list))
  end
end

-- One variadic command over a list, after some fixed arguments.
local function many(command, key, list)
  if #list > 0 then
    each_piece(list, function(from, to) call(command, key, unpack(list, from, to)) end)
  end
end

local function count(name, by)
  if by ~= 0 then
    call('HINCRBY', K.counters, name, by)
  end
end

-- The end of the first part of a tag, the worker: a claim number follows.
local function worker_of(tag)
  return string.match(tag, '^(.*):%d+$')
end

local function ms(value)
  return string.format('%.0f', value)
end
