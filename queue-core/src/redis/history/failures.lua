-- How runs of a queue have failed.
--
-- Output
--   now;
--   fingerprints, and of each what is kept.
-- Errors
--   SCHEMA: another schema number
--- include script/prelude, script/clock, script/schema

return { now, call('HGETALL', K.failures) }
