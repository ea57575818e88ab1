-- dead, cancelled or expired -> ready, with clean counters.
--
-- Inputs
--   triples of an id, its envelope without an expiry, or '' if it has none, and the envelope as it
--   was read.
-- Output
--   0 not changed, 1 changed, 3 its envelope is another one by now, or the id of the job that holds
--   the key of this one.
-- Errors
--   FEATURE: a feature bit that this library does not know
--   SCHEMA: another schema number
--- include script/prelude, script/clock, script/bits, people/requeueing

return requeue_jobs(ARGV)
