-- Groups, and which of them may be served. Each ready job with a group is a member of the sorted
-- set `line`, in byte order: group, digit, chain, number, id. A group is its name after the name's
-- length in two bytes. The digit is the priority, or '!' for the job that blocks the line of an
-- ordered group. The chain is a length and as many bytes, which are limit keys. Without limits it
-- is one zero byte. The members of suspects come after all others: 255, group, chain, number, id.
-- `grouped` has the place of each job (chain, digit, number) and its group. A digit of zero means
-- that the job has not been in a line yet.
--
-- `next` has the groups with a job that may start, and `doubts` has the groups with a suspect that
-- may start. Both are sorted by virtual start, and `review` updates them after each transition.
-- Suspects have a separate set because a claim takes at most one of them: a search for other jobs
-- does not read them. `rested` has other groups whose start is ahead of the virtual time. `holders`
-- has group, zero byte and id of each running job. `rules` has the rules that operators have set.
-- `front` has the job that blocks the line of each ordered group.
--- include script/tools, script/hint, script/rare, doors/aging

-- True if a group was added to an empty `next`. Then idle workers must be notified.
local opened = false

local virtual = nil

-- The largest virtual start that was served.
local function virtual_time()
  virtual = virtual or whole(call('HGET', K.meta, 'virtual') or '')
  return virtual
end

-- A double represents integers up to 2^53. For this reason virtual time has *eras*. At 2^51, the
-- virtual time and all starts are reduced by three quarters of that. The starts are reduced in
-- steps, the smallest first, so their order is kept. Until then a start of the last era is
-- recognized by its size, because no group is so far ahead of the virtual time.
local function has_last_era()
  return virtual_time() >= C.era / 4 and virtual < C.era / 2
end

-- The value of a stored start in the current era.
local function start_of(stored)
  local start = whole(stored)
  return start >= C.era * 3 / 4 and has_last_era() and start - C.era * 3 / 4 or start
end

-- Reduces starts of the last era before a claim of `n` jobs: those that the claim needs, and some
-- more.
local function restart_era(n)
  if virtual_time() >= C.era then
    virtual = virtual - C.era * 3 / 4
    call('HSET', K.meta, 'virtual', ms(virtual), 'plain', ms(math.max(whole(call('HGET', K.meta, 'plain') or '') - C.era * 3 / 4, 0)))
    call('HINCRBY', K.meta, 'era', '1')
  end
  for _, key in ipairs(has_last_era() and { K.next, K.doubts, K.rested } or {}) do
    local old, earlier = call('ZRANGEBYSCORE', key, ms(C.era * 3 / 4), '+inf', 'WITHSCORES', 'LIMIT', 0, n), {}
    for at = 1, #old, 2 do
      earlier[at], earlier[at + 1] = ms(start_of(old[at + 1])), old[at]
    end
    call_in_pieces('ZADD', key, earlier)
  end
end

-- The group of jobs that have limits but no group. It has no share: its jobs are served among the
-- plain jobs.
local NO_GROUP = '\0\0'

-- Compares bytes. Lua's `<` would use the locale of the server.
local function is_before(one, other)
  for at = 1, math.min(#one, #other) do
    local left, right = byte(one, at), byte(other, at)
    if left ~= right then
      return left < right
    end
  end
  return #one < #other
end

--- include doors/limits

local NO_LIMITS = '\0'

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

local function chain_in(stored)
  return string.sub(stored, 1, byte(stored) + 1)
end

-- Group and id of a member of `line`, whether it is a suspect, its chain and its digit.
local function parts_of(member)
  local from = byte(member) == 255 and 2 or 1
  local behind = from + 2 + byte(member, from) * 256 + byte(member, from + 1)
  local chain = behind + 2 - from
  local number = chain + byte(member, chain) + 1
  return string.sub(member, from, behind - 1), string.sub(member, number + 7), from == 2, string.sub(member, chain, number - 1), from == 1 and string.sub(member, behind, behind)
end

-- The rules that were read so far; false if no rule is set.
local rules = nil

local function rule_in(stored)
  return { string.match(stored or '', '^(%d*):(%d*):(%d*):(%l?):(p?)') }
end

local function has_rules()
  if rules == nil then
    rules = call('EXISTS', K.rules) == 1 and {}
    if rules then
      -- An operator's rule for all groups overrides the rule that code declares.
      local set, declared = unpack(call('HMGET', K.rules, '*', '+'))
      rules.others, declared = rule_in(set), rule_in(declared)
      for at = 1, 4 do
        rules.others[at] = (rules.others[at] or '') ~= '' and rules.others[at] or declared[at]
      end
    end
  end
  return rules
end

-- The effective rule of a group.
local function rule_of(group)
  if not has_rules() or group == NO_GROUP then
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
  return math.max(math.floor(C.start_cost / weight), 1)
end

-- The job that blocks the line of a group, if the order of the group requires that.
local function holder_of_line(group)
  return rule_of(group).order == 'o' and call('HGET', K.front, group) or nil
end

local function is_in_line(id)
  local stored = call('HGET', K.grouped, id)
  local member = stored and member_of(id, stored)
  return member and call('ZSCORE', K.line, member) and member
end

-- The number of jobs of a group that may still start.
local function room_of(group)
  local rule = rule_of(group)
  if rule.paused then
    return 0
  end
  return rule.cap and rule.cap - call('ZLEXCOUNT', K.holders, '[' .. group .. '\0', '(' .. group .. '\1') or math.huge
end

local are_suspects = nil

-- Whether a suspect may be in the line of a group. The feature bit of crashes does not suffice,
-- because it remains set while dead jobs have crashes.
local function may_have_suspects()
  if are_suspects == nil then
    are_suspects = has('c') and (call('EXISTS', K.doubts) == 1 or call('ZRANGEBYLEX', K.line, '[\255', '+', 'LIMIT', 0, 1)[1] ~= nil)
  end
  return are_suspects
end

-- The number of jobs of a group in the line, including suspects.
local function group_depth(group)
  local depth = call('ZLEXCOUNT', K.line, '[' .. group .. '!', '(' .. group .. '4')
  return may_have_suspects() and depth + call('ZLEXCOUNT', K.line, '[\255' .. group, '(\255' .. group .. '\255') or depth
end

-- The earliest virtual start of a group that becomes ready: behind the groups that were ready
-- before the last claim, but at most one job ahead. So virtual time advances even if no group
-- returns, and no later group overtakes a waiting one.
local function next_start(group)
  return virtual_time() + math.min(C.start_apart, cost_of(rule_of(group).weight))
end

-- Adds groups that may be served to `next`.
local function enter_rotation(groups)
  if #groups == 0 then
    return
  end
  opened = opened or call('EXISTS', K.next) == 0
  local rested, pairs_ = call('ZMSCORE', K.rested, unpack(groups)), {}
  for at, group in ipairs(groups) do
    pairs_[2 * at - 1], pairs_[2 * at] = ms(math.max(next_start(group), start_of(rested[at] or ''))), group
    if rested[at] then
      call('ZREM', K.rested, group)
    end
  end
  call('ZADD', K.next, unpack(pairs_))
end

-- Whether the chain of a job is open. The job is given as a member of `line`.
local function is_open(member)
  local group, _, is_suspect, chain, digit = parts_of(member)
  return #chain == 1 or is_suspect or limits().is_open(group, digit, chain)
end

local function is_in_order(group)
  return rule_of(group).order == 'o' or rule_of(group).order == 's'
end

-- The first job in the line of an ordered group, with or without limits.
local function first_in_line(group)
  for _, digit in ipairs(has('p') and { '!', '0', '1', '2', '3' } or { '!', '2' }) do
    local prefix = group .. digit
    local free = call('ZRANGEBYLEX', K.line, '[' .. prefix .. '\0', '(' .. prefix .. '\1', 'LIMIT', 0, 1)[1]
    local limited, number = limits().first_numbered(prefix, is_in_line)
    if not free or limited and is_before(number, string.sub(free, #prefix + 2, #prefix + 8)) then
      free = limited
    end
    if free then
      return free
    end
  end
end

-- Whether a group has a suspect in its line.
local function has_suspect(group)
  return may_have_suspects() and call('ZRANGEBYLEX', K.line, '[\255' .. group, '(\255' .. group .. '\255', 'LIMIT', 0, 1)[1]
end

-- Whether a group has a job in its line that has no limits and is not a suspect.
local function has_free_job(group)
  for _, digit in ipairs(has('p') and { '!', '0', '1', '2', '3' } or { '!', '2' }) do
    if call('ZLEXCOUNT', K.line, '[' .. group .. digit .. '\0', '(' .. group .. digit .. '\1') > 0 then
      return true
    end
  end
  return false
end

-- Whether a group has a job that may start, apart from suspects.
local function may_start(group)
  if room_of(group) <= 0 then
    return false
  end
  local holder = holder_of_line(group)
  if holder then
    local member = is_in_line(holder)
    return member and byte(member) ~= 255 and is_open(member)
  elseif has('m') and is_in_order(group) then
    local member = first_in_line(group)
    return member and is_open(member)
  elseif has('m') then
    return limits().has_open(group) or has_free_job(group)
  end
  return call('ZRANGEBYLEX', K.line, '[' .. group .. '!', '(' .. group .. '4', 'LIMIT', 0, 1)[1]
end

-- Whether a group has a suspect that may start if its limits have room.
local function has_startable_suspect(group)
  if not has_suspect(group) or room_of(group) <= 0 then
    return false
  end
  local holder = holder_of_line(group)
  local member = holder and is_in_line(holder)
  return not holder or member and byte(member) == 255
end

-- Updates whether a group is in `doubts`. Its start is that in `next`.
local function review_suspects(group, known_start)
  local start, may = call('ZSCORE', K.doubts, group), has_startable_suspect(group)
  if may then
    known_start = known_start or ms(math.max(start and start_of(start) or next_start(group), start_of(call('ZSCORE', K.rested, group) or '')))
    if start ~= known_start then
      opened = opened or not start
      call('ZADD', K.doubts, known_start, group)
    end
  elseif start then
    call('ZREM', K.doubts, group)
  end
end

-- Updates whether a group is among those that may be served.
local function review(group)
  local start, may = call('ZSCORE', K.next, group), may_start(group)
  if may and not start then
    enter_rotation({ group })
  elseif start and not may then
    call('ZREM', K.next, group)
    call('ZADD', K.rested, start, group)
  end
  if may_have_suspects() then
    review_suspects(group, may and call('ZSCORE', K.next, group))
  end
end

-- Pushes the ids with a group to their places. Returns the other ids, and whether idle workers must
-- be notified.
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
  local priorities, crashes = has('p') and levels_of(grouped, 1, n), has('c') and call('HMGET', K.crashes, unpack(grouped))
  local number = C.middle + call('HINCRBY', K.meta, at_head and 'line_head' or 'line_tail', at_head and -n or n)
  local members, places, groups, seen, doubted, chained = {}, {}, {}, {}, {}, {}
  for at, id in ipairs(grouped) do
    local group, digit = group_in(stored[id]), '2'
    if crashes and crashes[at] then
      digit, doubted[group], are_suspects = ' ', true, true
    elseif holder_of_line(group) == id then
      digit = '!'
    elseif priorities and priorities[at] then
      digit = string.match(priorities[at], '^[0-3]$') or '2'
    end
    local chain = chain_in(stored[id])
    local value = chain .. digit .. struct.pack('>I7', at_head and number + n - at or number - n + at) .. group
    members[2 * at - 1], members[2 * at] = '0', member_of(id, value)
    if #chain > 1 and digit ~= ' ' then
      limits().join(group, digit, chain)
      chained[#chained + 1] = members[2 * at]
    end
    places[2 * at - 1], places[2 * at] = id, value
    if not seen[group] then
      seen[group], groups[#groups + 1] = true, group
    end
  end
  set_bit('g')
  call_in_pieces('ZADD', K.line, members)
  if #chained > 0 then
    limits().number(chained)
  end
  set_fields(K.grouped, places)
  local before = opened
  opened = false
  if has_rules() then
    for _, group in ipairs(groups) do
      review(group)
    end
  else
    local starts, missing = call('ZMSCORE', K.next, unpack(groups)), {}
    for at, group in ipairs(groups) do
      -- The pushed jobs may be in shut chains, or all be suspects.
      missing[#missing + 1] = not starts[at] and (not has('m') and not doubted[group] or may_start(group)) and group or nil
    end
    enter_rotation(missing)
    for _, group in ipairs(may_have_suspects() and missing or {}) do
      doubted[group] = true
    end
    for group in pairs(doubted) do
      review_suspects(group, call('ZSCORE', K.next, group))
    end
  end
  local has_opened = opened
  opened = opened or before
  return plain, has_opened
end

-- Stores the group, the chain and the cost of a job that is not ready yet.
local function store_group_of(id, group, chain, cost)
  put_rare('g', K.grouped, id, (chain or NO_LIMITS) .. string.rep('\0', 8) .. (group or NO_GROUP))
  if cost and cost ~= '1' then
    put_rare('m', K.costs, id, cost)
  end
end

-- Removes an id from the line. Returns nothing if the job has no group.
local function leave_line(id)
  local stored = call('HGET', K.grouped, id)
  if stored then
    local member, group = member_of(id, stored)
    if member then
      call('ZREM', K.line, member)
      local _, _, is_suspect, chain, digit = parts_of(member)
      if #chain > 1 and not is_suspect then
        limits().leave(group, digit, chain, member)
      end
      review(group)
    end
  end
  return stored
end

-- Releases the slots of jobs that ran.
local function release_slots(ids)
  local slots, groups, limited = {}, {}, {}
  for at, stored in ipairs(call('HMGET', K.grouped, unpack(ids))) do
    if stored then
      local group, chain = group_in(stored), chain_in(stored)
      slots[#slots + 1], groups[group] = group .. '\0' .. ids[at], true
      if #chain > 1 then
        limited[chain] = true
        for _, slot in ipairs(limits().slots(chain, ids[at])) do
          slots[#slots + 1] = slot
        end
      end
    end
  end
  if #slots > 0 then
    call_in_pieces('ZREM', K.holders, slots)
    local loose = {}
    for chain in pairs(limited) do
      for _, key in ipairs(limits().keys_of(chain)) do
        loose[#loose + 1] = key
      end
    end
    if #loose > 0 then
      limits().recheck_keys(loose)
    end
    for group in pairs(groups) do
      if rule_of(group).cap then
        review(group)
      end
    end
  end
end

-- Unblocks the lines of ended jobs. `is_deleted`: removes the record of their group as well.
local function unblock_groups(ids, is_deleted)
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
  if is_deleted and #mine > 0 then
    call('HDEL', K.grouped, unpack(mine))
    if has('m') then
      call('HDEL', K.costs, unpack(mine))
    end
  end
end

-- Repairs of the auditor: a slot without a job, a job without its slot, a line that a missing job
-- blocks, a place without a job.
local function drop_slot(group, member)
  call('ZREM', K.holders, member)
  if byte(member) == 255 then
    limits().recheck_keys({ string.sub(member, 2, 17) })
  else
    review(group)
  end
end

local function take_slots(group, chain, id)
  call('ZADD', K.holders, '0', group .. '\0' .. id)
  for _, slot in ipairs(limits().slots(chain, id)) do
    call('ZADD', K.holders, '0', slot)
  end
  review(group)
end

local function free_line(group)
  call('HDEL', K.front, group)
  review(group)
end

local function drop_place(group, member)
  call('ZREM', K.line, member)
  local _, _, is_suspect, chain, digit = parts_of(member)
  if #chain > 1 and not is_suspect then
    limits().leave(group, digit, chain, member)
  end
  review(group)
end
