-- Parked jobs whose time is over to be read by a release: id, note, envelope.
-- ?1 queue, ?2 state parked, ?3 now, ?4 limit
SELECT id, note, envelope FROM queue_jobs WHERE queue = ?1 AND state = ?2 AND rank = 0 AND pos <= ?3 ORDER BY pos LIMIT ?4
