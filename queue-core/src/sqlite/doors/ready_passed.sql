-- How many jobs there are of one state and rank, at most.
-- ?1 queue, ?2 state, ?3 rank, ?4 limit
SELECT count(*) FROM (SELECT 1 FROM queue_jobs WHERE queue = ?1 AND state = ?2 AND rank = ?3 LIMIT ?4)
