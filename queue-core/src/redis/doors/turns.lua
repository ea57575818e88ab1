-- Turns of groups: which jobs a claim takes, one at a time, of the group with the least virtual start. Plain jobs are one more group, whose name is empty.
--- include doors/groups, doors/admit

-- Whether there is no further group of which this lane could get a job.
local served_all = false

-- The order of bytes; that of the server's language is another one.
local function is_before(one, other)
  for at = 1, math.min(#one, #other) do
    local left, right = byte(one, at), byte(other, at)
    if left ~= right then
      return left < right
    end
  end
  return #one < #other
end

-- Puts a group where it belongs among those that wait for their turn, from a place on. Mostly that is the last place.
local function insert(queue, at, entry)
  local function goes_behind(other)
    return other.start < entry.start or other.start == entry.start and is_before(other.group, entry.group)
  end
  local low, high = at, #queue + 1
  if high > low and goes_behind(queue[#queue]) then
    low = high
  end
  while low < high do
    local middle = math.floor((low + high) / 2)
    if goes_behind(queue[middle]) then
      low = middle + 1
    else
      high = middle
    end
  end
  table.insert(queue, low, entry)
end

-- The next job of a group that has its turn, as a member of `line`. One more than is needed is read: who has none has nothing that is ready.
local function next_of(entry, asked)
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

-- The picks of a claim of so many jobs, while so many plain ones are ready: starts of plain ones, and what each of them costs; and of groups their entries,
-- members and starts.
local function choose(n, plain)
  local groups = call('ZCARD', K.turns)
  local weight = tonumber(string.match(has_rules() and call('HGET', K.rules, '-') or '', '^(%d+):') or '')
  if not weight then
    local depth = math.min(call('ZCARD', K.line), C.share_counted)
    weight = math.floor(math.min(groups, C.share_counted) * math.min(plain, C.share_counted) / math.max(depth, 1))
  end
  local plain_cost, starts, picks = cost_of(math.max(math.min(weight, 1000), 1)), {}, {}
  local queue, at, looked = {}, 1, n
  local first = call('ZRANGE', K.turns, 0, n - 1, 'WITHSCORES')
  for i = 1, #first, 2 do
    queue[#queue + 1] = { group = first[i], start = whole(first[i + 1]) }
  end
  if plain > 0 then
    insert(queue, 1, { group = '', start = math.max(virtual_time(), whole(call('HGET', K.meta, 'plain') or '')) })
  end
  local asked = math.ceil(n / math.max(#queue, 1))
  while #starts + #picks < n and queue[at] do
    local entry, goes_on = queue[at], false
    at = at + 1
    if entry.group == '' then
      starts[#starts + 1], goes_on = entry.start, #starts + 1 < plain
      entry.start = entry.start + plain_cost
    else
      local member = next_of(entry, asked)
      if member then
        picks[#picks + 1] = { entry = entry, member = member, start = entry.start }
        entry.start, goes_on = entry.start + entry.cost, entry.room > 0 and entry.heads[entry.next]
      elseif looked < n + 100 then
        -- It has suspects alone: the next one is looked at instead.
        local other = call('ZRANGE', K.turns, looked, looked, 'WITHSCORES')
        looked = looked + 1
        if other[1] then
          insert(queue, at, { group = other[1], start = whole(other[2]) })
        end
      end
    end
    if goes_on then
      insert(queue, at, entry)
    end
  end
  served_all = #starts + #picks < n
  return starts, plain_cost, picks
end

-- Jobs of groups were admitted, by their members: each has a slot, and perhaps the line.
local function start_in_groups(members, admitted)
  local slots, orders = {}, {}
  for _, member in ipairs(members) do
    local group, id = parts_of(member)
    if admitted[id] then
      slots[#slots + 1], slots[#slots + 2] = '0', group .. '\0' .. id
      if rule_of(group).order == 'o' then
        orders[#orders + 1], orders[#orders + 2] = group, id
      end
    end
  end
  call('ZREM', K.line, unpack(members))
  if #slots > 0 then
    call('ZADD', K.holders, unpack(slots))
  end
  if #orders > 0 then
    put_all(K.front, orders)
  end
end

-- Virtual time goes on; what is behind it need not be remembered.
local function served_at(start)
  if start > virtual_time() then
    virtual = start
    call('HSET', K.meta, 'virtual', ms(start))
    call('ZREMRANGEBYSCORE', K.rested, '-inf', ms(start))
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
  local stay, go = {}, {}
  for _, entry in ipairs(touched) do
    local group = entry.group
    -- Those with a rule, those of which some were not taken, and those of which suspects may be left are looked at again.
    local is_empty = entry.whole and not entry.heads[entry.next] and not has('c') and passed == #picks and not rules
    local list = is_empty and go or stay
    list[#list + 1], list[#list + 2] = ms(last[group]), group
  end
  if #go > 0 then
    call('ZADD', K.rested, unpack(go))
    local names = {}
    for at = 2, #go, 2 do
      names[at / 2] = go[at]
    end
    call('ZREM', K.turns, unpack(names))
  end
  if #stay > 0 then
    call('ZADD', K.turns, unpack(stay))
    if has('c') or passed < #picks or rules then
      for at = 2, #stay, 2 do
        review(stay[at])
      end
    end
  end
  served_at(latest)
end

-- The suspect that stands first in the line of a group that may be served.
local function next_suspect()
  local from = '[\255'
  for _ = 1, 100 do
    local member = call('ZRANGEBYLEX', K.line, from, '+', 'LIMIT', 0, 1)[1]
    if not member then
      return nil
    end
    local group, id = parts_of(member)
    local holder = holder_of_line(group)
    if call('ZSCORE', K.turns, group) and (not holder or holder == id) then
      return member, group, id
    end
    from = '(\255' .. group .. '\255'
  end
end

-- A suspect of a group, one at a time. It is no turn of its group, which pays for it: virtual time stands still.
local function claim_suspect_of_group()
  local member, group, id = next_suspect()
  local before = #ids
  if member and admit({ id }) > 0 then
    local start = whole(call('ZSCORE', K.turns, group))
    start_in_groups({ member }, { [ids[before + 1] or ''] = true })
    call('ZADD', K.turns, ms(start + cost_of(rule_of(group).weight)), group)
    review(group)
  end
end
