-- Releases a key from the job that holds it.
-- ARGV[1]  key  the key
-- Returns: the answer of `people/key.lua` before the release
-- Errors: FEATURE, SCHEMA
-- Events: hint, transitions
--- include script/prelude, script/clock, script/bits, doors/keys

local id, upto = holder_of(ARGV[1])
local answer = id and { id, upto and ms(upto) or '', waiter_for_key(ARGV[1]) or '' }
if id then
  local key, hold = key_in(call('HGET', K.keyed, id) or '')
  if key == ARGV[1] then
    -- Marks that the key was taken, so that the auditor does not restore it. The job acquires a key
    -- again when it returns to a waiting state.
    put_rare('u', K.keyed, id, key .. hold .. '0')
  end
  release_key(ARGV[1])
end
return answer
