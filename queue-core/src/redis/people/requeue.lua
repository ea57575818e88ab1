-- dead, cancelled or expired -> ready, with clean counters. ARGV: triples of an id, its envelope without an expiry, or '' if it has none, and the envelope as it was read.
-- Answers: 0 not changed, 1 changed, 3 its envelope is another one by now, or the id of the job that holds the key of this one.
--- include script/prelude, script/clock, script/bits, people/requeueing

return requeue_jobs(ARGV)
