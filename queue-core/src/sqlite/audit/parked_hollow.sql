-- Entries under a task without a parked job.
-- ?1 queue, ?2 state parked, ?3 limit
SELECT id, 0 FROM queue_parked
WHERE queue = ?1 AND id NOT IN (SELECT id FROM queue_jobs WHERE queue = ?1 AND state = ?2) LIMIT ?3
