-- Groups: who may be served. A job that is ready and has a group stands in `line`, one sorted set in the order of bytes: group, digit, chain, number,
-- id. A group is a name behind its length in two bytes. The digit is that of the priority, '!' for the job that holds the line of an ordered group. The
-- chain is a length and as many bytes, which are the keys of limits; without any it is one zero. Suspects stand behind all others: 255, group, chain,
-- number, id. `grouped` has of each job its place (chain, digit, number) and its group; a digit of zero: it has stood in no line yet.
--
-- `turns` has the groups that may be served, by their virtual start, and is right after each transition: `review` sees to it. `rested` has the others
-- that are ahead of the virtual time. `holders` has group, zero and id of each job that runs. `rules` is what people have set, `front` who holds the
-- line of an ordered group.
--- include script/tools, script/hint, script/rare

-- Whether a group came to `turns` when no other was there: idle workers have to hear of it.
local opened = false

local NO_PLACE = string.rep('\0', 9)
local MIDDLE = 4503599627370496

local function group_in(stored)
  return string.sub(stored, byte(stored) + 10)
end

local function member_of(id, stored)
  local chain = byte(stored) + 1
  local digit = string.sub(stored, chain + 1, chain + 1)
  local place, group = string.sub(stored, 1, chain) .. string.sub(stored, chain + 2, chain + 8) .. id, string.sub(stored, chain + 9)
  if digit == ' ' then
    return '\255' .. group .. place, group
  end
  return digit ~= '\0' and group .. digit .. place, group
end

-- Group and id of a member of `line`, and whether it is a suspect.
local function parts_of(member)
  local from = byte(member) == 255 and 2 or 1
  local behind = from + 2 + byte(member, from) * 256 + byte(member, from + 1)
  local chain = behind + 2 - from
  return string.sub(member, from, behind - 1), string.sub(member, chain + byte(member, chain) + 8), from == 2
end

-- What is set: false if nothing is; and what was read of it.
local rules = nil

local function rule_in(stored)
  return { string.match(stored or '', '^(%d*):(%d*):(%d*):(%l?):(p?)') }
end

local function has_rules()
  if rules == nil then
    rules = call('EXISTS', K.rules) == 1 and { others = rule_in(call('HGET', K.rules, '*')) }
  end
  return rules
end

-- What holds for a group.
local function rule_of(group)
  if not has_rules() then
    return { weight = 1 }
  end
  if not rules[group] then
    local own, others = rule_in(call('HGET', K.rules, group)), rules.others
    local rule = {
      weight = math.max(tonumber(own[1] or '') or tonumber(others[1] or '') or 1, 1),
      cap = tonumber(own[2] or '') or tonumber(others[2] or ''),
      most = tonumber(own[3] or '') or tonumber(others[3] or ''),
      order = own[4] and own[4] ~= '' and own[4] or others[4],
      paused = own[5] == 'p',
    }
    if rule.order == 'o' or rule.order == 's' then
      rule.cap = math.min(rule.cap or 1, 1)
    end
    rules[group] = rule
  end
  return rules[group]
end

local function cost_of(weight)
  return math.max(math.floor(C.turn_cost / weight), 1)
end

-- Who holds the line of a group, as far as its rule asks for that.
local function holder_of_line(group)
  return rule_of(group).order == 'o' and call('HGET', K.front, group) or nil
end

local function is_in_line(id)
  local stored = call('HGET', K.grouped, id)
  local member = stored and member_of(id, stored)
  return member and call('ZSCORE', K.line, member) and member
end

-- How many more jobs of a group may start.
local function room_of(group)
  local rule = rule_of(group)
  if rule.paused then
    return 0
  end
  return rule.cap and rule.cap - call('ZLEXCOUNT', K.holders, '[' .. group .. '\0', '(' .. group .. '\1') or math.huge
end

-- How many jobs of a group stand in the line, suspects too.
local function depth_of(group)
  local depth = call('ZLEXCOUNT', K.line, '[' .. group .. '!', '(' .. group .. '4')
  return has('c') and depth + call('ZLEXCOUNT', K.line, '[\255' .. group, '(\255' .. group .. '\255') or depth
end

local virtual = nil

-- The largest start that was served.
local function virtual_time()
  virtual = virtual or whole(call('HGET', K.meta, 'virtual') or '')
  return virtual
end

-- Groups that may be served and are not in `turns` come there.
local function enter(groups)
  if #groups == 0 then
    return
  end
  opened = opened or call('EXISTS', K.turns) == 0
  local rested, pairs_ = call('ZMSCORE', K.rested, unpack(groups)), {}
  for at, group in ipairs(groups) do
    pairs_[2 * at - 1], pairs_[2 * at] = ms(math.max(virtual_time(), whole(rested[at] or ''))), group
    if rested[at] then
      call('ZREM', K.rested, group)
    end
  end
  call('ZADD', K.turns, unpack(pairs_))
end

-- Whether a group may be served.
local function may_start(group)
  if room_of(group) <= 0 then
    return false
  end
  local holder = holder_of_line(group)
  if holder then
    return is_in_line(holder) and true
  end
  return depth_of(group) > 0
end

-- Decides anew whether a group is among those that may be served.
local function review(group)
  local start, may = call('ZSCORE', K.turns, group), may_start(group)
  if may and not start then
    enter({ group })
  elseif start and not may then
    call('ZREM', K.turns, group)
    call('ZADD', K.rested, start, group)
  end
end

-- Pushes those ids that have a group to their places. Gives the others, and whether idle workers have to hear of it.
local function push_grouped(ids, at_head)
  local stored, plain, grouped = {}, {}, {}
  for from = 1, #ids, PIECE do
    local to = math.min(from + PIECE - 1, #ids)
    for at, value in ipairs(call('HMGET', K.grouped, unpack(ids, from, to))) do
      local list = value and grouped or plain
      list[#list + 1], stored[ids[from + at - 1]] = ids[from + at - 1], value or nil
    end
  end
  local n = #grouped
  if n == 0 then
    return ids, false
  end
  local priorities, crashes = has('p') and call('HMGET', K.priority, unpack(grouped)), has('c') and call('HMGET', K.crashes, unpack(grouped))
  local number = MIDDLE + call('HINCRBY', K.meta, at_head and 'line_head' or 'line_tail', at_head and -n or n)
  local members, places, groups, seen = {}, {}, {}, {}
  for at, id in ipairs(grouped) do
    local group, digit = group_in(stored[id]), '2'
    if crashes and crashes[at] then
      digit = ' '
    elseif holder_of_line(group) == id then
      digit = '!'
    elseif priorities and priorities[at] then
      digit = string.match(priorities[at], '^[0-3]$') or '2'
    end
    local value = '\0' .. digit .. struct.pack('>I7', at_head and number + n - at or number - n + at) .. group
    members[2 * at - 1], members[2 * at] = '0', member_of(id, value)
    places[2 * at - 1], places[2 * at] = id, value
    if not seen[group] then
      seen[group], groups[#groups + 1] = true, group
    end
  end
  mark('g')
  many('ZADD', K.line, members)
  put_all(K.grouped, places)
  local before = opened
  opened = false
  if has_rules() then
    for _, group in ipairs(groups) do
      review(group)
    end
  else
    local starts, missing = call('ZMSCORE', K.turns, unpack(groups)), {}
    for at, group in ipairs(groups) do
      missing[#missing + 1] = not starts[at] and group or nil
    end
    enter(missing)
  end
  local told = opened
  opened = opened or before
  return plain, told
end

-- A job that is not ready yet belongs to a group.
local function note_group(id, group)
  put_rare('g', K.grouped, id, NO_PLACE .. group)
end

-- Takes an id out of the line. False: it has no group.
local function leave_line(id)
  local stored = call('HGET', K.grouped, id)
  if stored then
    local member, group = member_of(id, stored)
    if member then
      call('ZREM', K.line, member)
      review(group)
    end
  end
  return stored
end

-- Jobs that ran give their slots back.
local function give_slots_back(ids)
  local slots, groups = {}, {}
  for at, stored in ipairs(call('HMGET', K.grouped, unpack(ids))) do
    if stored then
      local group = group_in(stored)
      slots[#slots + 1], groups[group] = group .. '\0' .. ids[at], true
    end
  end
  if #slots > 0 then
    call('ZREM', K.holders, unpack(slots))
    for group in pairs(groups) do
      if rule_of(group).cap then
        review(group)
      end
    end
  end
end

-- Jobs that have ended hold no line any more. `gone`: nor are they known to have a group.
local function leave_groups(ids, gone)
  local lines, mine = call('EXISTS', K.front) == 1, {}
  for at, stored in ipairs(call('HMGET', K.grouped, unpack(ids))) do
    if stored then
      mine[#mine + 1] = ids[at]
      local group = group_in(stored)
      if lines and call('HGET', K.front, group) == ids[at] then
        call('HDEL', K.front, group)
        review(group)
      end
    end
  end
  if gone and #mine > 0 then
    call('HDEL', K.grouped, unpack(mine))
  end
end

-- What the auditor mends: a slot without its job, a job without its slot, a line that nobody holds, a place without its job.
local function drop_slot(group, member)
  call('ZREM', K.holders, member)
  review(group)
end

local function take_slot(group, id)
  call('ZADD', K.holders, '0', group .. '\0' .. id)
  review(group)
end

local function free_line(group)
  call('HDEL', K.front, group)
  review(group)
end

local function drop_place(group, member)
  call('ZREM', K.line, member)
  review(group)
end
