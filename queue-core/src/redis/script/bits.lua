-- The feature bits of a queue, a letter each: what is out of the ordinary in it. `meta` holds them,
-- and beside them the time at which the next job is due. A bit that is absent says that the keys
-- behind it do not exist. Absent or unreadable bits mean all of them.

local head = call('HMGET', K.meta, 'schema', 'bits', 'due', 'claim', 'paused')
if head[1] and head[1] ~= C.schema then
  return redis.error_reply('SCHEMA ' .. (string.match(head[1], '^%d+$') or 'unknown'))
end
local bits = head[2] and string.match(head[2], '^%l*$')
local unknown = bits and string.match(bits, C.unknown)
if unknown then
  -- A newer library has stored what this one would not respect.
  return redis.error_reply('FEATURE ' .. (call('HGET', K.meta, 'feature:' .. unknown) or unknown))
end
-- Never later than the next job is due; FOREVER: none waits; nothing: it is not known.
local due = head[3] and string.match(head[3], '^%d+$') and whole(head[3])

--- include script/has

-- A job is due at this time.
local function due_by(at)
  if due and at < due then
    due = at
    call('HSET', K.meta, 'due', ms(due))
  end
end
