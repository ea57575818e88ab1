-- Jobs in the line of a group, in order, after a position.
-- ?1 queue, ?2 state (in the line of a group), ?3 line, ?4 position, ?5 limit
SELECT id, pos FROM queue_jobs WHERE queue = ?1 AND state = ?2 AND rank = ?3 AND pos > ?4 ORDER BY pos LIMIT ?5
