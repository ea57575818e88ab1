-- Parked jobs without an entry under their task.
-- ?1 queue, ?2 state parked, ?3 limit
SELECT id, 0 FROM queue_jobs
WHERE queue = ?1 AND state = ?2 AND id NOT IN (SELECT id FROM queue_parked WHERE queue = ?1) LIMIT ?3
