-- dead, cancelled or expired -> ready, with clean counters. ARGV: pairs of an id and its envelope without an expiry, or '' if it has none.
-- Answers: 0 not changed, 1 changed, or the id of the job that holds the key of this one.
--- include script/prelude, script/clock, script/bits, people/requeueing

return requeue_jobs(ARGV)
