-- Reads the failure patterns of a queue.
-- Returns: the current time, and pairs of a fingerprint and its record
-- Errors: SCHEMA
--- include script/prelude, script/clock, script/schema

return { now, call('HGETALL', K.failures) }
