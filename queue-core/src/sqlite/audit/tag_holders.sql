-- Jobs that may have tags: the key `g` is somewhere in their envelopes.
-- ?1 queue
SELECT id, envelope FROM queue_jobs WHERE queue = ?1 AND instr(envelope, x'a167') > 0
