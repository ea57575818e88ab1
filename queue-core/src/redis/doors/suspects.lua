-- Suspects of groups: a claim takes at most one of them.
--- include doors/groups, doors/admit

-- Jobs of groups were admitted. Each occupies a slot of its group, and may block the line.
local function start_in_groups(members, admitted)
  local slots, orders = {}, {}
  for _, member in ipairs(members) do
    local group, id, _, chain = parts_of(member)
    if admitted[id] then
      slots[#slots + 1], slots[#slots + 2] = '0', group .. '\0' .. id
      if #chain > 1 then
        for _, slot in ipairs(limits().slots(chain, id)) do
          slots[#slots + 1], slots[#slots + 2] = '0', slot
        end
      end
      if rule_of(group).order == 'o' then
        orders[#orders + 1], orders[#orders + 2] = group, id
      end
    end
  end
  call('ZREM', K.line, unpack(members))
  if has('m') then
    limits().number(members, true)
  end
  call_in_pieces('ZADD', K.holders, slots)
  if #orders > 0 then
    set_fields(K.front, orders)
  end
end

-- The place at which the last search for a suspect stopped: the rank of its group, the group, and
-- the suspect after which the search continues. Only 0: the search begins with the first group.
local function suspect_search_position()
  local start, from = string.match(call('HGET', K.meta, 'doubted') or '', '^(%d+):([%[%(]\255...*)$')
  if not start then
    return 0
  end
  local group = string.sub(from, 3, 4 + byte(from, 3) * 256 + byte(from, 4))
  local stored = call('ZSCORE', K.doubts, group)
  if stored == start then
    return call('ZRANK', K.doubts, group), group, from
  end
  -- The group has left, or has another start: the next search begins with the first group that had
  -- the same start.
  return call('ZCOUNT', K.doubts, '-inf', '(' .. start)
end

-- Whether the search has not examined all suspects that may start. nil: this script has not
-- searched.
local may_be_doubted = nil

-- The next suspect: the first one that no limit blocks, of the group with the smallest start. A
-- search examines at most `limit_step` suspects. If limits block all of them, it finds none. With
-- `stores`, it stores its place in `meta`, and the next such search continues there. Without, it
-- begins with the first group.
local function next_suspect(stores)
  local rank, resumed, behind, looked, stop = 0, nil, nil, 0, nil
  if stores then
    rank, resumed, behind = suspect_search_position()
  end
  local groups = call('ZRANGE', K.doubts, rank, rank + C.limit_step, 'WITHSCORES')
  for at = 1, #groups, 2 do
    local group = groups[at]
    local holder, from = holder_of_line(group), group == resumed and behind or '[\255' .. group
    while true do
      if looked >= C.limit_step then
        stop = groups[at + 1] .. ':' .. from
        break
      end
      local member = holder and is_in_line(holder) or not holder and call('ZRANGEBYLEX', K.line, from, '(\255' .. group .. '\255', 'LIMIT', 0, 1)[1]
      looked = looked + 1
      if not member then
        break
      end
      local _, id, _, chain = parts_of(member)
      if #chain == 1 or not limits().blocker(chain, id) then
        if stores and rank + #(behind or '') > 0 then
          call('HDEL', K.meta, 'doubted')
        end
        return { member, group, id, chain }
      elseif holder then
        break
      end
      -- The jobs behind it in its chain wait for the same limits.
      from = '(\255' .. group .. chain .. '\255'
    end
    if stop then
      break
    end
  end
  may_be_doubted = stop ~= nil
  if stores and stop then
    call('HSET', K.meta, 'doubted', stop)
  elseif stores and rank + #(behind or '') > 0 then
    call('HDEL', K.meta, 'doubted')
  end
end

-- Claims one suspect of a group. The virtual start of the group moves on by the cost of a job, and
-- the virtual time of the queue stays as it is.
local function claim_suspect_of_group()
  local found = call('EXISTS', K.doubts) == 1 and (restart_era(C.limit_step) or next_suspect(true))
  if not found then
    return
  end
  local member, group, id, chain = unpack(found)
  local before = #ids
  if admit({ id }) > 0 then
    local start = ms(start_of(call('ZSCORE', K.doubts, group)) + cost_of(rule_of(group).weight))
    if #chain > 1 and ids[before + 1] then
      limits().take(chain, id)
      limits().write()
    end
    start_in_groups({ member }, { [ids[before + 1] or ''] = true })
    call('ZADD', call('ZSCORE', K.next, group) and K.next or K.rested, start, group)
    call('ZADD', K.doubts, start, group)
    review(group)
  end
end
