-- A bit is set only while every live lane knows it: an older lane would ignore its feature.
--- include script/has

-- The first feature bit that a request needs and some lane does not know. Call this before anything
-- is written. Entries of lanes that no longer exist are ignored.
local function unknown_to_a_lane(needs)
  for bit in string.gmatch(needs, '.') do
    local known = has(bit) and {} or call('HGETALL', K.knows)
    for at = 1, #known, 2 do
      -- A field without a dot is a worker, with the number of its lanes.
      local is_lane = string.find(known[at], '.', 1, true)
      if is_lane and not string.find(known[at + 1], bit, 1, true) and call('HEXISTS', K.lanes, known[at]) == 1 then
        return bit
      end
    end
  end
end
