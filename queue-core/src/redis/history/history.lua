-- Reads which tasks have a history, and which releases were seen.
-- Returns: the current time, the names, and pairs of a release and when it was first seen
-- Errors: SCHEMA
--- include script/prelude, script/clock, script/schema

return { now, call('HKEYS', K.tasks), call('HGETALL', K.deployed) }
