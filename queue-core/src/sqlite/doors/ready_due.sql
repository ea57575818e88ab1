-- The ids of jobs that are due, in order of time.
-- ?1 queue, ?2 state (scheduled or retry), ?3 now, ?4 limit
SELECT id FROM queue_jobs WHERE queue = ?1 AND state = ?2 AND rank = 0 AND pos <= ?3 ORDER BY pos LIMIT ?4
