-- A page of the held keys.
--
-- Inputs
--   the cursor, about how many keys to examine.
-- Output
--   the next cursor, and of each held key: the key, the id, until when or '', who is held for it or
--   ''.
-- Errors
--   FEATURE: a feature bit that this library does not know
--   SCHEMA: another schema number
--- include script/prelude, script/clock, script/bits, doors/keys

local found = call('HSCAN', K.unique, ARGV[1], 'COUNT', ARGV[2])
local answer = { found[1] }
for at = 1, #found[2], 2 do
  local key = found[2][at]
  local id, upto = holder_of(key)
  if id then
    for _, part in ipairs({ key, id, upto and ms(upto) or '', next_for(key) or '' }) do
      answer[#answer + 1] = part
    end
  end
end
return answer
