-- Of which tasks there is a history, and which releases were seen.
--
-- Output
--   now, names, releases and when each was first seen.
-- Errors
--   SCHEMA: another schema number
--- include script/prelude, script/clock, script/schema

return { now, call('HKEYS', K.tasks), call('HGETALL', K.deployed) }
