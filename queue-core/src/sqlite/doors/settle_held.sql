-- The jobs that a lane holds, as `Held` reads them.
-- ?1 queue, ?2 state active, ?3 lane. Without the name of the index SQLite reads all jobs of the queue.
SELECT id, crashes, first_crash, failures, ran, pos FROM queue_jobs INDEXED BY queue_jobs_order WHERE queue = ?1 AND state = ?2 AND rank = ?3
