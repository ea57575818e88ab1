-- Cancels jobs (R13).
-- ARGV[1]    why  the reason, or ''
-- ARGV[2..]  ids  the ids of the jobs
-- Returns: for each id 0 if there is no such job, 1 if it was cancelled, 2 if it was cancelled
--   while active
-- Errors: FEATURE, SCHEMA
-- Events: hint, hint_tick, hint_ended, hint_watch, transitions
--- include script/prelude, script/clock, script/bits, people/cancelling

return cancel_jobs({ unpack(ARGV, 2) }, ARGV[1] ~= '' and ARGV[1] or nil)
