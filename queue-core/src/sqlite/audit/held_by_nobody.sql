-- Active jobs whose lane is not there.
-- ?1 queue, ?2 state active, ?3 limit
SELECT id, rank FROM queue_jobs
WHERE queue = ?1 AND state = ?2 AND rank NOT IN (SELECT lane FROM queue_lanes WHERE queue = ?1) LIMIT ?3
