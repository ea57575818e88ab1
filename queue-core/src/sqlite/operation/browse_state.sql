-- Jobs of one state in its order.
-- ?1 queue, ?2 state, ?3 behind this rank, ?4 pos and ?5 id, ?6 limit
SELECT id, rank, pos FROM queue_jobs WHERE queue = ?1 AND state = ?2 AND (rank, pos, id) > (?3, ?4, ?5) ORDER BY rank, pos, id LIMIT ?6
