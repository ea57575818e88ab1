-- Pauses or resumes the queue, a group or a task.
-- ARGV[1]  of      'q', 'g' and a group, or 't' and a task
-- ARGV[2]  pauses  '1' to pause or '0' to resume
-- ARGV[3]  until   '1': '' for no end, a time in ms, or '+' and a number of ms from now
-- ARGV[4]  said    '1': the stored name of the operator and reason
-- Returns: 'SET'; 'PAST' if the end has passed; 'MANY' if the limit of group rules or of paused
--   tasks is reached
-- Errors: BEHIND, FEATURE, SCHEMA
-- Events: hint
--- include script/prelude, script/clock, script/bits, script/guard, doors/pauses

local of, upto = ARGV[1], nil
local is_task = byte(of) == 116 -- 't'
local group = string.sub(of, 2)
if ARGV[2] == '0' then
  end_pause(of)
  hint()
  return 'SET'
end
if is_task or ARGV[3] ~= '' then
  upto = ARGV[3] == '' and FOREVER or byte(ARGV[3]) == 43 and time_after_delay(string.sub(ARGV[3], 2)) or whole(ARGV[3]) -- '+'
  local behind = unknown_to_a_lane('e')
  if upto <= now then
    return 'PAST'
  elseif behind then
    return redis.error_reply('BEHIND ' .. behind)
  end
end
local stored = call('HGET', K.rules, group)
if is_task and call('HEXISTS', K.pauses, of) == 0 and call('HLEN', K.pauses) - call('HEXISTS', K.pauses, 'q') >= C.paused_tasks then
  return 'MANY'
elseif of ~= 'q' and not is_task and not stored and call('HLEN', K.rules) >= C.group_rules then
  return 'MANY'
end
local rule, before = string.match(stored or '::::', '^([^p]*)p?(.*)$')
if is_task or of == 'q' then
  before = (is_task or head[5] == '1') and call('HGET', K.pauses, of) or ''
end
-- A pause that replaces a valid one keeps its beginning.
local since, ends = string.match(before, '^(%d+):(%d*)')
if not since or ends ~= '' and whole(ends) <= now then
  since = ms(now)
end
local record = since .. ':' .. (upto and upto < FOREVER and ms(upto) or '') .. ':' .. ARGV[4]
if of == 'q' then
  set_bit('h')
  call('HSET', K.meta, 'paused', '1')
  set_field(K.pauses, of, record)
elseif is_task then
  set_field(K.pauses, of, record)
else
  set_rule(group, rule .. 'p' .. record)
end
clear_pause_end(of)
if upto then
  set_pause_end(of, upto)
end
if not head[1] then
  call('HSET', K.meta, 'schema', C.schema)
end
return 'SET'
