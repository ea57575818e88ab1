-- Moves scheduled jobs, and jobs that wait for a retry, to the tail of the ready jobs before their
-- time.
-- ARGV[1..]  ids  the ids of the jobs
-- Returns: for each id 1 if it was promoted, or 0
-- Errors: FEATURE, SCHEMA
-- Events: hint, transitions
--- include script/prelude, script/clock, script/bits, people/promoting

return promote_jobs(ARGV)
