-- The same of the line, suspects first.
-- ?1 queue, ?2 limit, ?3 offset, ?4 state of suspects, ?5 state ready
SELECT id, state, envelope, priority, attempts, crashes, snoozes, pos, ended, note, rank, failures FROM queue_jobs
WHERE queue = ?1 AND state IN (?4, ?5) ORDER BY state DESC, rank, pos LIMIT ?2 OFFSET ?3
