-- Moves dead, cancelled or expired jobs to the ready jobs, and clears their counters.
-- ARGV[1..]  jobs  triples of an id, its envelope without an expiry or '' if it has none, and
--                  the envelope that was read
-- Returns: for each job 0 if it was not changed, 1 if it was requeued, 3 if its envelope has
--   changed since, or the id of the job that holds its key
-- Errors: FEATURE, SCHEMA
-- Events: hint, transitions
--- include script/prelude, script/clock, script/bits, people/requeueing

return requeue_jobs(ARGV)
