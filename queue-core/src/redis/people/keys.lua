-- Reads a page of the held keys.
-- ARGV[1]  cursor  the cursor
-- ARGV[2]  count   about how many keys to examine
-- Returns: the next cursor, and for each held key: the key, the id, the end of its hold time
--   or '', and the job that is held for the key or ''
-- Errors: FEATURE, SCHEMA
--- include script/prelude, script/clock, script/bits, doors/keys

local found = call('HSCAN', K.unique, ARGV[1], 'COUNT', ARGV[2])
local answer = { found[1] }
for at = 1, #found[2], 2 do
  local key = found[2][at]
  local id, upto = holder_of(key)
  if id then
    for _, part in ipairs({ key, id, upto and ms(upto) or '', waiter_for_key(key) or '' }) do
      answer[#answer + 1] = part
    end
  end
end
return answer
