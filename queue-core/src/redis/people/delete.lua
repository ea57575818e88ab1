-- Removes jobs that are not active.
-- ARGV[1..]  ids  the ids of the jobs
-- Returns: for each id 1 if it was removed, or 0
-- Errors: FEATURE, SCHEMA
-- Events: hint, hint_tick, hint_ended, transitions
--- include script/prelude, script/clock, script/bits, people/remove

return remove_jobs(ARGV)
