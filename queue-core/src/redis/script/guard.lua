-- A bit is set only while every live lane knows it: an older one would ignore what it tells of.
--- include script/has

-- The first of the bits that a request needs which some lane does not know. It is asked for before anything is written.
local function unknown_to_a_lane(needs)
  for bit in string.gmatch(needs, '.') do
    for _, knows in ipairs(has(bit) and {} or call('HVALS', K.knows)) do
      if not string.find(knows, bit, 1, true) then
        return bit
      end
    end
  end
end
