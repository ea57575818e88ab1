-- Who holds a key.
--
-- Inputs
--   the key.
-- Output
--   the id, until when or '', and who is held for it or '';
--   or nothing.
-- Errors
--   FEATURE: a feature bit that this library does not know
--   SCHEMA: another schema number
--- include script/prelude, script/clock, script/bits, doors/keys

local id, upto = holder_of(ARGV[1])
return id and { id, upto and ms(upto) or '', next_for(ARGV[1]) or '' }
