-- Reads the position of jobs in the queue.
-- ARGV[1..]  ids  the ids of the jobs
-- Returns: the current time, 1 if the queue is paused or 0, and for each job:
--     job state             the answer of `shown`, or false if there is no such job
--     key holder            for a held job: the job that holds its key
--     lease left            for an active job: the remaining lease of its lane in ms, even if the
--                           lane is fenced; false if the lane is unknown
--     For a ready job the following rows; without a group and limits, only the first two:
--     jobs ahead            the jobs of its line that start first
--     groups in turn        the other groups that are eligible
--     blocking limit keys   for each: key, rule, the time until which it blocks or '', held slots,
--                           some jobs that hold them
--     group                 name, pause rule or '', cap or '', running jobs, a sample of these at
--                           the cap
--     line holder           the job that blocks the line of the group, or ''
-- Errors: FEATURE, SCHEMA
--- include script/prelude, script/clock, script/bits, doors/keys, people/shown

-- The number of ids before an id in a list. In a long list, only the ends are searched.
local function position_in_list(list, id)
  local key, looked = LISTS[list], math.max(100, math.floor(C.places_examined / #ARGV))
  local at = call('LPOS', key, id, 'MAXLEN', looked)
  if at then
    return at
  end
  local length = call('LLEN', key)
  return call('LPOS', key, id, 'RANK', '-1', 'MAXLEN', looked) or length
end

-- The number of jobs of a group in its line with this digit or an earlier one.
local function count_up_to_digit(group, digit)
  return call('ZLEXCOUNT', K.line, '[' .. group .. '!', '(' .. group .. digit .. '\255')
end

local function count_before_plain(id)
  if call('HEXISTS', K.crashes, id) == 1 then
    return position_in_list(9, id) + call('ZLEXCOUNT', K.line, '[\255' .. NO_GROUP, '(\255' .. NO_GROUP .. '\255')
  end
  local own = list_of(levels_of({ id }, 1, 1)[1])
  local before = position_in_list(own, id)
  for list = 0, own - 1 do
    before = before + call('LLEN', LISTS[list])
  end
  return before + count_up_to_digit(NO_GROUP, tostring(own))
end

local eligible_groups, plain = call('ZCARD', K.next) - (call('ZSCORE', K.next, NO_GROUP) and 1 or 0), 0
for list = 0, 3 do
  plain = plain + call('LLEN', LISTS[list])
end
plain = plain + count_up_to_digit(NO_GROUP, '3')

-- The chains of a priority are served in rotation. Jobs of other chains with this priority
-- therefore count as earlier.
local function position_in_group(member)
  local group, _, is_suspect, chain, digit = parts_of(member)
  if is_suspect then
    local all = call('ZLEXCOUNT', K.line, '[\255' .. group, '(\255' .. group .. '\255')
    return all - call('ZLEXCOUNT', K.line, '[' .. member, '(\255' .. group .. chain .. '\255')
  end
  return count_up_to_digit(group, digit) - call('ZLEXCOUNT', K.line, '[' .. member, '(' .. group .. digit .. chain .. '\255')
end

local function blocking_limits(id, member)
  local group, _, _, chain, digit = parts_of(member)
  local found = {}
  if #chain == 1 then
    return found
  end
  local cost, shut_under = limits().cost_of(id), digit and limits().shut_under(group, digit, chain)
  for _, key in ipairs(limits().keys_of(chain)) do
    local upto, is_full = limits().opens_at(key, cost), limits().state_of(key).left <= 0
    if not is_full then
      upto = (key == shut_under and limits().kept_until or limits().reserved_until)(key, upto)
    end
    if upto or is_full then
      local slots = { '[\255' .. key .. '\0', '(\255' .. key .. '\1' }
      local holders = call('ZRANGEBYLEX', K.holders, slots[1], slots[2], 'LIMIT', 0, C.holders_named)
      for at, slot in ipairs(holders) do
        holders[at] = string.sub(slot, 19)
      end
      found[#found + 1] = {
        key, call('HGET', K.limits, string.sub(key, 1, 6)) or '', upto and ms(upto) or '', call('ZLEXCOUNT', K.holders, slots[1], slots[2]), holders,
      }
    end
  end
  return found
end

local function group_line(id, stored)
  local member, group = member_of(id, stored)
  local limited, before = blocking_limits(id, member), position_in_group(member)
  if group == NO_GROUP then
    if byte(member) == 255 then
      before = before + call('LLEN', LISTS[9])
    else
      for list = 0, list_of(levels_of({ id }, 1, 1)[1]) do
        before = before + call('LLEN', LISTS[list])
      end
    end
    return before, eligible_groups, limited
  end
  local rule, full = rule_of(group), {}
  local running = call('ZLEXCOUNT', K.holders, '[' .. group .. '\0', '(' .. group .. '\1')
  if rule.cap and running >= rule.cap then
    for at, slot in ipairs(call('ZRANGEBYLEX', K.holders, '[' .. group .. '\0', '(' .. group .. '\1', 'LIMIT', 0, C.holders_named)) do
      full[at] = string.sub(slot, #group + 2)
    end
  end
  local holder = holder_of_line(group)
  local others = eligible_groups + (plain > 0 and 1 or 0) - (call('ZSCORE', K.next, group) and 1 or 0)
  return before, others, limited, group, rule.paused and call('HGET', K.rules, group) or '', rule.cap or '', running, full, holder and holder ~= id and holder or ''
end

local answers = { now, head[5] == '1' and 1 or 0 }
for at, id in ipairs(ARGV) do
  local job = read_job(id)
  local more = { job }
  if job and job[1] == 'held' then
    more[2] = holder_of(string.sub(job[13], 1, 16)) or ''
  elseif job and job[1] == 'active' then
    local lane = lane_of(job[8])
    local deadline = lane and call('ZSCORE', K.leases, lane)
    deadline = deadline or lane and string.match(call('HGET', K.fenced, lane) or '', '^(%d+)')
    more[2] = deadline and whole(deadline) - now
  elseif job and job[1] == 'ready' then
    local stored = job[14] ~= '' and job[14]
    if stored and member_of(id, stored) then
      more = { job, group_line(id, stored) }
    else
      more[2], more[3] = count_before_plain(id), eligible_groups
    end
  end
  answers[2 + at] = more
end
return answers
