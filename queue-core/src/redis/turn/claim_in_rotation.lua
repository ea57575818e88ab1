-- Claims jobs of a queue with groups or limits.
--- include doors/rotation

-- Claims plain jobs and jobs of groups in rotation. Returns whether the lists had fewer jobs than
-- were counted.
local function claim_in_rotation()
  local wanted_in_all, before = wanted, #ids
  local starts, cost, picks, examined, chosen = choose(wanted - #ids)
  for _, list in ipairs(ORDER) do
    -- With limits, a list does not replace a missing job of a higher priority.
    wanted = chosen and #ids + (chosen[list] or 0) or before + #starts
    claim_ready(list)
  end
  wanted = wanted_in_all
  local taken = #ids - before
  if taken > 0 then
    local start = starts[taken]
    call('HSET', K.meta, 'plain', ms(start + cost))
    served_at(start)
  end
  if #picks > 0 and not full then
    take_picks(picks)
  elseif #picks > 0 then
    limits().settle_picks(picks, 0, {}, parts_of)
  end
  for _, entry in ipairs(examined) do
    review(entry.group)
  end
  return taken < #starts
end

-- Whether the rule and the line of a group allow another job to start.
local function may_serve(group)
  local holder = holder_of_line(group)
  return room_of(group) > 0 and (not holder or is_in_line(holder))
end

local function cost_of_start(group)
  return cost_of(rule_of(group).weight)
end

-- The same in a queue with limits. It ends when the claim is complete, or when no other job can
-- start.
local function claim_with_limits()
  for _ = 1, 5 do
    for group in pairs(limits().open_some(wanted - #ids, may_serve, cost_of_start)) do
      review(group)
    end
    local has_fewer = false
    if call('EXISTS', K.next) == 1 then
      has_fewer = claim_in_rotation()
    else
      for _, list in ipairs(ORDER) do
        claim_ready(list)
      end
    end
    if #ids >= wanted or full or not has_fewer and call('EXISTS', K.roomy) == 0 then
      break
    end
  end
  limits().write()
end

if has('m') then
  claim_with_limits()
else
  claim_in_rotation()
end
