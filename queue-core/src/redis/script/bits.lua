-- The feature bits of a queue: one letter for each rare feature that the queue uses. `meta` stores
-- them, together with the time at which the next job is due. If a bit is absent, the keys of its
-- feature do not exist. If the field is absent or unreadable, all bits are assumed.

local head = call('HMGET', K.meta, 'schema', 'bits', 'due', 'claim', 'paused')
if head[1] and head[1] ~= C.schema then
  return redis.error_reply('SCHEMA ' .. (string.match(head[1], '^%d+$') or 'unknown'))
end
local bits = head[2] and string.match(head[2], '^%l*$')
local unknown = bits and string.match(bits, C.unknown)
if unknown then
  -- A newer library has stored data that this one would ignore.
  return redis.error_reply('FEATURE ' .. (call('HGET', K.meta, 'feature:' .. unknown) or unknown))
end
-- No job is due before this time. FOREVER: no job waits for its time. nil: unknown.
local due = head[3] and string.match(head[3], '^%d+$') and whole(head[3])

--- include script/has

-- Records that a job is due at this time.
local function note_next_due(at)
  if due and at < due then
    due = at
    call('HSET', K.meta, 'due', ms(due))
  end
end
