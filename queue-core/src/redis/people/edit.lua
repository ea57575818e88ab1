-- Edits a waiting job if it has not changed since the caller read it.
-- ARGV[1]   id             the id of the job
-- ARGV[2]   needs          the feature bits that the edited job needs
-- ARGV[3]   seen_body      the envelope that was read
-- ARGV[4]   seen_priority  the priority that was read
-- ARGV[5]   seen_group     the group that was read, or ''
-- ARGV[6]   seen_at        the time that was read, or ''
-- ARGV[7]   body           the new envelope
-- ARGV[8]   priority       the new priority
-- ARGV[9]   group          the new group, or ''
-- ARGV[10]  chain          the new chain
-- ARGV[11]  cost           the new cost
-- ARGV[12]  key            the new key, '' to keep the key
-- ARGV[13]  at             the new time, '' to keep the time
-- ARGV[14]  digest         the digest of a given id
-- ARGV[15]  is_new         '1' if the parameters change
-- Returns: { 'yes' }, { 'wanted' }, { 'missing' }, { 'closed', state }, { 'differs' }, { 'held',
--   the job that holds the key } or { 'full' }
-- Errors: BEHIND, FEATURE, SCHEMA
-- Events: hint, transitions
--- include script/prelude, script/clock, script/bits, script/guard, doors/end, doors/edit, doors/tags, people/shown, people/update_due_and_hint
return (function()

local id, needs, seen_body, seen_priority, seen_group, seen_at = unpack(ARGV, 1, 6)
local body, priority, group, chain, cost, key, at, digest, is_new = unpack(ARGV, 7, 15)

local behind = unknown_to_a_lane(needs)
if behind then
  return redis.error_reply('BEHIND ' .. behind)
end

local job = read_job(id)
if not job then
  return { 'missing' }
end
local state, own_at, stored_key, stored_group = job[1], job[7], job[13] or '', job[14] or ''
if state == 'active' or state == 'dead' or call('HEXISTS', K.records, id) == 1 then
  return { 'closed', state }
end
local own_key = string.sub(stored_key, 1, 16)
local own_group = stored_group ~= '' and group_in(stored_group) or ''
if own_group == NO_GROUP then
  own_group = ''
end
local own_chain, own_cost = stored_group ~= '' and chain_in(stored_group) or NO_LIMITS, call('HGET', K.costs, id) or '1'

local function has_passed(time)
  return time == '' or whole(time) <= now
end

local retimes = at ~= '' and own_at ~= at and not (has_passed(at) and has_passed(own_at))
local rekeys = key ~= '' and own_key ~= '' and key ~= own_key
local regroups = group ~= own_group or chain ~= own_chain or cost ~= own_cost
if not (retimes or rekeys or regroups) and body == job[2] and priority == job[3] then
  return { 'wanted' }
end
local is_time_seen = own_at == seen_at or own_at == '' and has_passed(seen_at)
if job[2] ~= seen_body or job[3] ~= seen_priority or own_group ~= seen_group or not is_time_seen then
  return { 'differs' }
end
if rekeys then
  local other = holder_of(key)
  if other and other ~= id then
    return { 'held', other }
  end
end
if group ~= '' and group ~= own_group then
  local most = rule_of(group).most
  if most and group_depth(group) >= most then
    return { 'full' }
  end
end

-- The edit is allowed. A job that does not change its place keeps its position in the line.
local leaves = retimes and state ~= 'held' or state == 'ready' and (priority ~= job[3] or regroups)
  or state == 'parked' and is_new == '1' or state == 'held' and rekeys
if leaves then
  remove_waiting(id)
  count('.replaced', 1)
  if state == 'parked' then
    delete_unreadable({ id })
  end
elseif retimes then
  store_waiter_for_key(own_key, tonumber(at), id)
end

if string.find(needs, 'l', 1, true) then
  set_bit('l')
end
may_have_tags = string.find(needs, 'i', 1, true) ~= nil
put_job(id, body)
if byte(id) == 61 then -- '='
  call('HSET', K.given, id, digest)
end
if priority == '2' then
  call('HDEL', K.priority, id)
elseif priority ~= job[3] then
  put_rare('p', K.priority, id, priority)
end
if regroups then
  replace_group(id, own_group, group, chain, cost)
end
if rekeys then
  replace_key(id, stored_key, key)
end

if leaves then
  local time = whole(at ~= '' and at or own_at)
  if state == 'retry' and time > now then
    store_waiting(K.retry, { ms(time), id })
  else
    wait_or_push(id, time)
  end
end
update_due_and_hint()
return { 'yes' }
end)()
