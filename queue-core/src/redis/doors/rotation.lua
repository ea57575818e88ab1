-- Rotation of groups: selects the jobs of a claim, one at a time, from the group with the smallest
-- virtual start. Plain jobs count as another group, whose name is empty.
--- include doors/groups, doors/admit

-- Inserts a group into the queue of groups that wait to be served, from a position on. Usually it
-- becomes the last one.
local function insert(queue, at, entry)
  local function is_served_after(other)
    return other.start < entry.start or other.start == entry.start and is_before(other.group, entry.group)
  end
  local low, high = at, #queue + 1
  if high > low and is_served_after(queue[#queue]) then
    low = high
  end
  while low < high do
    local middle = math.floor((low + high) / 2)
    if is_served_after(queue[middle]) then
      low = middle + 1
    else
      high = middle
    end
  end
  table.insert(queue, low, entry)
end

-- The next job without limits of a group and a digit. It is not removed.
local function peek_free(entry, digit, asked)
  entry.free = entry.free or {}
  local list = entry.free[digit] or { next = 1 }
  entry.free[digit] = list
  if not list[list.next] and not list.whole then
    local prefix = entry.group .. digit
    local from = #list > 0 and '(' .. list[#list] or '[' .. prefix .. '\0'
    local more = call('ZRANGEBYLEX', K.line, from, '(' .. prefix .. '\1', 'LIMIT', 0, asked)
    list.whole = #more < asked
    for _, member in ipairs(more) do
      list[#list + 1] = member
    end
  end
  return list[list.next], list
end

-- Whether jobs with limits come before other jobs of equal priority. They do in half of the starts
-- of a group. Multiples of the golden ratio are spread evenly, even if only every second or third
-- of them occurs, because a group that pauses between its starts skips some.
local function limited_go_first(entry)
  return math.floor(entry.start / entry.cost) * 0.618033988749895 % 1 < 0.5
end

-- The next job of a group in a queue with limits: from its open chains, and from its jobs without
-- limits, in rotation.
local function next_with_limits(entry, asked)
  if not entry.room then
    local rule = rule_of(entry.group)
    entry.room, entry.cost, entry.order, entry.holder = room_of(entry.group), cost_of(rule.weight), rule.order, holder_of_line(entry.group)
    entry.only = entry.holder and is_in_line(entry.holder) or not entry.holder and is_in_order(entry.group) and first_in_line(entry.group) or nil
  end
  entry.looked = true
  if entry.room <= 0 or entry.holder and not entry.only then
    return nil
  end
  local _, _, is_suspect, chain, only_digit = nil, nil, false, nil, nil
  if entry.only then
    _, _, is_suspect, chain, only_digit = parts_of(entry.only)
    if is_suspect then
      return nil
    end
  end
  for _, digit in ipairs(only_digit and { only_digit } or has('p') and { '!', '0', '1', '2', '3' } or { '!', '2' }) do
    local member, list = nil, nil
    if not only_digit then
      member, list = peek_free(entry, digit, asked)
    elseif #chain == 1 then
      member, list = entry.only, { next = 1 }
    end
    if not member or limited_go_first(entry) and not only_digit then
      local limited = limits().next_of(entry, digit, asked, entry.only, chain)
      if limited then
        member, list = limited, nil
      end
    end
    if member then
      if list then
        list.next = list.next + 1
      end
      entry.room = entry.room - 1
      if only_digit then
        entry.room = 0
      end
      return member
    end
  end
end

-- The next job of an eligible group, as a member of `line`. One more than needed is read, to find
-- out whether the group has further ready jobs.
local function next_of(entry, asked)
  if has('m') then
    return next_with_limits(entry, asked)
  end
  if not entry.heads then
    local rule, holder = rule_of(entry.group), holder_of_line(entry.group)
    entry.room, entry.cost, entry.order = room_of(entry.group), cost_of(rule.weight), rule.order
    entry.heads, entry.next, entry.whole = {}, 1, true
    if holder then
      local member = is_in_line(holder)
      entry.heads[1] = member and byte(member) ~= 255 and member or nil
    else
      entry.whole, entry.asked = false, asked
    end
  end
  if not entry.whole and entry.next >= #entry.heads then
    local from = '[' .. entry.group .. '!'
    local more = call('ZRANGEBYLEX', K.line, #entry.heads > 0 and '(' .. entry.heads[#entry.heads] or from, '(' .. entry.group .. '4', 'LIMIT', 0, entry.asked + 1)
    for _, member in ipairs(more) do
      entry.heads[#entry.heads + 1] = member
    end
    entry.whole, entry.asked = #more <= entry.asked, 4 * entry.asked
  end
  if entry.room > 0 and entry.heads[entry.next] then
    entry.room, entry.next = entry.room - 1, entry.next + 1
    return entry.heads[entry.next - 1]
  end
end

-- The next job without a group: one with limits, as a member of `line`, or the list from which a
-- job has to be taken.
local function next_plain(entry, lists, may_list, asked)
  for _, digit in ipairs(has('p') and { 0, 1, 2, 3 } or { 2 }) do
    local list = may_list and (lists[digit] or 0) > 0 and digit or nil
    if not list or limited_go_first(entry) then
      local member = limits().next_of(entry, ms(digit), asked)
      if member then
        return member
      end
    end
    if list then
      return nil, list
    end
  end
end

-- The picks of a claim of `n` jobs: the starts of plain jobs, the cost of each, and the entries,
-- members and starts of groups. In a queue with limits, also the groups that were examined, and the
-- number of jobs for each list.
local function choose(n)
  restart_era(n + C.limit_step)
  -- Jobs that have limits but no group are plain jobs, too.
  local limited = has('m') and call('ZSCORE', K.next, NO_GROUP) and { group = NO_GROUP, start = 0 } or nil
  local groups = call('ZCARD', K.next) - (limited and 1 or 0)
  local examined, lists, chosen, plain = {}, {}, limited and {}, 0
  for _, list in ipairs(ORDER) do
    lists[list] = call('LLEN', LISTS[list])
    plain = plain + lists[list]
  end
  local tombstones = has('t') and call('HLEN', K.tombstones) or 0
  if tombstones > C.limit_step then
    -- The tombstones are not read: at most as many as there are suspects belong to the list of
    -- suspects.
    plain = math.max(plain - math.max(tombstones - call('LLEN', K.suspect), 0), 0)
  elseif tombstones > 0 then
    for _, tombstone in ipairs(call('HKEYS', K.tombstones)) do
      local list = tonumber(string.sub(tombstone, -1))
      if lists[list] then
        lists[list], plain = lists[list] - 1, plain - 1
      end
    end
  end
  local weight = tonumber(string.match(has_rules() and call('HGET', K.rules, '-') or '', '^(%d+):') or '')
  if not weight then
    local depth, waiting = call('ZCARD', K.line), plain
    if has('m') then
      local chained = call('ZLEXCOUNT', K.line, '[' .. NO_GROUP .. '!', '(' .. NO_GROUP .. '4')
      depth, waiting = depth - chained, plain + chained
    end
    depth, waiting = math.min(depth, C.share_counted), math.min(waiting, C.share_counted)
    weight = math.floor(math.min(groups, C.share_counted) * waiting / math.max(depth, 1))
  end
  local plain_cost, starts, picks = cost_of(math.max(math.min(weight, 1000), 1)), {}, {}
  local queue, at, looked = {}, 1, limited and n + 1 or n
  local first = call('ZRANGE', K.next, 0, looked - 1, 'WITHSCORES')
  for i = 1, #first, 2 do
    if first[i] ~= NO_GROUP then
      queue[#queue + 1] = { group = first[i], start = start_of(first[i + 1]) }
    end
  end
  examined[1] = limited
  if plain > 0 or limited then
    insert(queue, 1, { group = '', start = math.max(virtual_time(), whole(call('HGET', K.meta, 'plain') or '')) })
  end
  local asked = math.ceil(n / math.max(#queue, 1))
  while #starts + #picks < n and queue[at] do
    local entry, goes_on = queue[at], false
    at = at + 1
    if entry.group == '' and not limited then
      starts[#starts + 1], goes_on = entry.start, #starts + 1 < plain
      entry.start = entry.start + plain_cost
    elseif entry.group == '' then
      limited.start, limited.cost = entry.start, plain_cost
      local member, list = next_plain(limited, lists, #starts < plain, n)
      if list then
        starts[#starts + 1], lists[list], chosen[list] = entry.start, lists[list] - 1, (chosen[list] or 0) + 1
      elseif member then
        picks[#picks + 1] = { entry = limited, member = member, start = entry.start }
      end
      goes_on = member or list
      if goes_on then
        entry.start = entry.start + plain_cost
        limited.start = entry.start
      end
    else
      local member = next_of(entry, asked)
      examined[#examined + 1] = entry
      if member then
        picks[#picks + 1] = { entry = entry, member = member, start = entry.start }
        entry.start, goes_on = entry.start + entry.cost, entry.room > 0 and (not entry.heads or entry.heads[entry.next])
      elseif looked <= n + (has('m') and C.limit_step + 500 or 100) then
        -- Its chains are shut now: the next group is examined instead.
        local other = call('ZRANGE', K.next, looked, looked, 'WITHSCORES')
        looked = looked + 1
        if other[1] and other[1] ~= NO_GROUP then
          insert(queue, at, { group = other[1], start = start_of(other[2]) })
        end
      end
    end
    if goes_on then
      insert(queue, at, entry)
    end
  end
  served_all = #starts + #picks < n
  return starts, plain_cost, picks, has('m') and examined or {}, chosen
end

-- Advances virtual time, and removes starts before it. Each claim removes more of them than it
-- adds. A sweep removes the rest after a peak.
local function served_at(start)
  if start > virtual_time() then
    virtual = start
    call('HSET', K.meta, 'virtual', ms(start))
    local old = call('ZRANGEBYSCORE', K.rested, '-inf', ms(start), 'LIMIT', 0, 2 * #ids + 10)
    if #old > 0 then
      call('ZREM', K.rested, unpack(old))
    end
  end
end

-- Takes the picks of groups.
local function take_picks(picks)
  local found, members, before = {}, {}, #ids
  for at, pick in ipairs(picks) do
    local _, id = parts_of(pick.member)
    found[at] = id
  end
  local passed, admitted = admit(found), {}
  for at = before + 1, #ids do
    admitted[ids[at]] = true
  end
  if passed == 0 then
    if has('m') then
      limits().settle_picks(picks, 0, admitted, parts_of)
    end
    return
  end
  local last, touched, latest = {}, {}, 0
  for at = 1, passed do
    local pick = picks[at]
    members[at], latest = pick.member, math.max(latest, pick.start)
    if not last[pick.entry.group] then
      touched[#touched + 1] = pick.entry
    end
    last[pick.entry.group] = pick.start + pick.entry.cost
  end
  start_in_groups(members, admitted)
  if has('m') then
    limits().settle_picks(picks, passed, admitted, parts_of)
  end
  if last[NO_GROUP] then
    call('HSET', K.meta, 'plain', ms(math.max(whole(call('HGET', K.meta, 'plain') or ''), last[NO_GROUP])))
  end
  local stay, go = {}, {}
  for _, entry in ipairs(touched) do
    local group = entry.group
    -- Groups with a rule, groups whose picks were not all taken, and groups that may have suspects
    -- are reviewed.
    local is_empty = not has('m') and entry.whole and not entry.heads[entry.next] and not may_have_suspects() and passed == #picks and not rules
    local list = is_empty and go or stay
    list[#list + 1], list[#list + 2] = ms(last[group]), group
  end
  if #go > 0 then
    call('ZADD', K.rested, unpack(go))
    local names = {}
    for at = 2, #go, 2 do
      names[at / 2] = go[at]
    end
    call('ZREM', K.next, unpack(names))
  end
  if #stay > 0 then
    call('ZADD', K.next, unpack(stay))
    if may_have_suspects() or passed < #picks or rules then
      for at = 2, #stay, 2 do
        review(stay[at])
      end
    end
  end
  served_at(latest)
end
