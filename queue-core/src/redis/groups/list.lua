-- Reads groups and their rules.
-- ARGV[1]  which  'one', 'line' or 'all'
-- ARGV[2]  group  a group; with 'all' the group to continue after, or ''
-- ARGV[3]  limit  with 'line' the most jobs, with 'all' the most groups
-- Returns:
--     the rule of all groups, the declarations of the code, the rule of plain jobs, the current
--       time, and the first jobs of the line;
--     then for each group its name, its ready jobs, its running jobs, its rule, the job that blocks
--       its line or '', and the time since which its oldest ready job could start, or ''
-- Errors: FEATURE, SCHEMA
--- include script/prelude, script/schema, script/clock

-- Unknown bits: every feature is read from its keys.
local bits = nil
--- include script/has, people/since

local names = { ARGV[2] }
if ARGV[1] == 'all' then
  -- `NO_GROUP` has the jobs that have limits but no group. It is not a group, and sorts before all
  -- groups.
  local seen, found, after = {}, {}, ARGV[2] == '' and NO_GROUP or ARGV[2]
  -- Names are compared by bytes. No name is a prefix of another, because each begins with its
  -- length.
  local function is_name_before(one, other)
    for at = 1, math.min(#one, #other) do
      if byte(one, at) ~= byte(other, at) then
        return byte(one, at) < byte(other, at)
      end
    end
    return #one < #other
  end
  local function add_group(group)
    if not seen[group] and is_name_before(after, group) then
      seen[group], found[#found + 1] = true, group
    end
  end
  -- The next groups with ready jobs, with suspects and with running jobs.
  for _, look in ipairs({ { K.line, '' }, { K.line, '\255' }, { K.holders, '' } }) do
    local from = '(' .. look[2] .. after .. '\255'
    for _ = 0, ARGV[3] do
      local member = call('ZRANGEBYLEX', look[1], from, look[2] == '' and '(\255' or '+', 'LIMIT', 0, 1)[1]
      if not member then
        break
      end
      local start = look[2] == '' and 1 or 2
      local group = string.sub(member, start, start + 1 + byte(member, start) * 256 + byte(member, start + 1))
      add_group(group)
      from = '(' .. look[2] .. group .. '\255'
    end
  end
  for _, name in ipairs(call('ZRANGEBYLEX', K.ruled, '(' .. after, '+', 'LIMIT', 0, ARGV[3] + 1)) do
    add_group(name)
  end
  table.sort(found, is_name_before)
  names = { unpack(found, 1, math.min(#found, ARGV[3] + 1)) }
end
local line = {}
if ARGV[1] == 'line' then
  local function read_members(from, to)
    if #line < tonumber(ARGV[3]) then
      for _, member in ipairs(call('ZRANGEBYLEX', K.line, from, to, 'LIMIT', 0, ARGV[3] - #line)) do
        local _, id = parts_of(member)
        line[#line + 1] = id
      end
    end
  end
  read_members('[' .. ARGV[2] .. '!', '(' .. ARGV[2] .. '4')
  read_members('[\255' .. ARGV[2], '(\255' .. ARGV[2] .. '\255')
end

local answer = { call('HGET', K.rules, '*') or '', call('HGET', K.rules, '+') or '', call('HGET', K.rules, '-') or '', now, line }
for _, group in ipairs(names) do
  answer[#answer + 1] = group
  answer[#answer + 1] = group_depth(group)
  answer[#answer + 1] = call('ZLEXCOUNT', K.holders, '[' .. group .. '\0', '(' .. group .. '\1')
  answer[#answer + 1] = call('HGET', K.rules, group) or ''
  answer[#answer + 1] = holder_of_line(group) or ''
  local oldest = oldest_startable_since(group)
  answer[#answer + 1] = oldest and ms(oldest) or ''
end
return answer
