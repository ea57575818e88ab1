-- Pauses the queue, a group or a task, or lets it go on.
--
-- Inputs
--   'q', 'g' and a group, or 't' and a task;
--   '1' or '0';
--   until when: '', a time in ms, or '+' and so many ms from now;
--   who pauses and why, as it is stored.
-- Output
--   SET, PAST if the end has passed, MANY if there are as many rules of groups, or paused tasks, as
--   there may be.
-- Errors
--   BEHIND: a lane does not know a feature bit
--   FEATURE: a feature bit that this library does not know
--   SCHEMA: another schema number
-- Events
--   a hint: jobs are ready or due
--- include script/prelude, script/clock, script/bits, script/guard, doors/pauses

local of, upto = ARGV[1], nil
local is_task = byte(of) == 116 -- 't'
local group = string.sub(of, 2)
if ARGV[2] == '0' then
  go_on(of)
  hint()
  return 'SET'
end
if is_task or ARGV[3] ~= '' then
  upto = ARGV[3] == '' and FOREVER or byte(ARGV[3]) == 43 and after(string.sub(ARGV[3], 2)) or whole(ARGV[3]) -- '+'
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
-- It has begun with the pause that there is, unless that has ended.
local since, ends = string.match(before, '^(%d+):(%d*)')
if not since or ends ~= '' and whole(ends) <= now then
  since = ms(now)
end
local said = since .. ':' .. (upto and upto < FOREVER and ms(upto) or '') .. ':' .. ARGV[4]
if of == 'q' then
  set_bit('h')
  call('HSET', K.meta, 'paused', '1')
  put(K.pauses, of, said)
elseif is_task then
  put(K.pauses, of, said)
else
  set_rule(group, rule .. 'p' .. said)
end
forget_end(of)
if upto then
  note_end(of, upto)
end
if not head[1] then
  call('HSET', K.meta, 'schema', C.schema)
end
return 'SET'
