-- Reads which job holds a key.
-- ARGV[1]  key  the key
-- Returns: the id, the end of its hold time or '', and the job that is held for the key or '';
--   or nothing
-- Errors: FEATURE, SCHEMA
--- include script/prelude, script/clock, script/bits, doors/keys

local id, upto = holder_of(ARGV[1])
return id and { id, upto and ms(upto) or '', waiter_for_key(ARGV[1]) or '' }
