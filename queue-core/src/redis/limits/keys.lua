-- Reads limit keys.
-- ARGV[1]    which  'of' or 'these'
-- ARGV[2]    name   'of': the first bytes of the keys, which are derived from the limit's name
-- ARGV[3]    from   'of': the key to begin after, or ''
-- ARGV[4]    limit  'of': the most keys
-- ARGV[2..]  keys   'these': the keys
-- Returns:
--     for each key: the key, the stored form of its limit, the number of held slots, the first jobs
--       that hold them, the number of waiting jobs, the first of these or '', and the time until
--       which no job of the key may start, or ''
-- Errors: FEATURE, SCHEMA
--- include script/prelude, script/clock, script/schema

-- Unknown bits: every feature is read from its keys.
local bits = nil
--- include script/has, doors/groups

local found = {}
if ARGV[1] == 'these' then
  found = { unpack(ARGV, 2) }
else
  local seen = {}
  for _, look in ipairs({ { K.holders, '\255' }, { K.shut, '' } }) do
    local from = ARGV[3] == '' and '[' .. look[2] .. ARGV[2] or '(' .. look[2] .. ARGV[3] .. '\255'
    for _ = 1, ARGV[4] do
      local member = call('ZRANGEBYLEX', look[1], from, '(' .. look[2] .. ARGV[2] .. C.last_key, 'LIMIT', 0, 1)[1]
      if not member then
        break
      end
      local key = string.sub(member, #look[2] + 1, #look[2] + 16)
      if not seen[key] then
        seen[key], found[#found + 1] = true, key
      end
      from = '(' .. look[2] .. key .. '\255'
    end
  end
  table.sort(found, is_before)
  found = { unpack(found, 1, math.min(#found, ARGV[4])) }
end
local answer, left = {}, C.chains_counted
for _, key in ipairs(found) do
  local slots, waiting = { '[\255' .. key .. '\0', '(\255' .. key .. '\1' }, { '[' .. key, '(' .. key .. '\255' }
  local holders = call('ZRANGEBYLEX', K.holders, slots[1], slots[2], 'LIMIT', 0, C.holders_named)
  for at, member in ipairs(holders) do
    holders[at] = string.sub(member, 19)
  end
  local shut = call('ZRANGEBYLEX', K.shut, waiting[1], waiting[2], 'LIMIT', 0, 1)[1]
  local head = ''
  if shut then
    local group, digit, chain = limits().parts_of_shut(shut)
    local member = limits().has_jobs(group, digit, chain)
    head = member and string.sub(member, #group + #chain + 9) or ''
  end
  local jobs = 0
  for _, member in ipairs(left > 0 and call('ZRANGEBYLEX', K.shut, waiting[1], waiting[2], 'LIMIT', 0, left) or {}) do
    left, jobs = left - 1, jobs + limits().depth_of_shut(member)
  end
  -- Slots are counted separately: only the rate is read here.
  local state = limits().state_of(key)
  state.left = 1
  local upto = limits().until_when(key, 1)
  upto = shut and limits().kept_until(key, upto) or upto
  for _, value in ipairs({
    key, call('HGET', K.limits, string.sub(key, 1, 6)) or '', call('ZLEXCOUNT', K.holders, slots[1], slots[2]), holders,
    jobs, head, upto and ms(upto) or '',
  }) do
    answer[#answer + 1] = value
  end
end
return answer
