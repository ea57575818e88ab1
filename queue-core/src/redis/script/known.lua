-- What is known of live jobs besides their envelopes: five of the sparse hashes.

-- Which of them were there when first asked for. What a script writes into them itself is of jobs that it neither keeps nor strips.
local there = {}

local function is_there(key)
  if there[key] == nil then
    there[key] = call('EXISTS', key) == 1
  end
  return there[key]
end

-- All of it, gone.
local function strip(ids)
  for _, key in ipairs(sparse and { K.attempts, K.snoozes, K.crashes, K.errors, K.priority } or {}) do
    if is_there(key) then
      many('HDEL', key, ids)
    end
  end
end
