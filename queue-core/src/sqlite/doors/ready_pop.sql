-- The head of a line, as `Waiting` reads it.
-- ?1 queue, ?2 state (ready, or its suspects), ?3 limit
SELECT id, envelope, attempts, crashes, snoozes FROM queue_jobs
WHERE queue = ?1 AND state = ?2 ORDER BY rank, pos LIMIT ?3
