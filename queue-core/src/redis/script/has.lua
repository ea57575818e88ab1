-- Reads and sets the feature bits of a queue, which `bits` holds.

-- Whether the keys of a feature may exist.
local function has(bit)
  return not bits or string.find(bits, bit, 1, true) ~= nil
end

-- Sets a feature bit. Call this before the keys of the feature are written.
local function set_bit(bit)
  if not has(bit) then
    bits = bits .. bit
    call('HSET', K.meta, 'bits', bits)
  end
end
