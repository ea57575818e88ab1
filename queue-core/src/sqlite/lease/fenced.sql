-- The fenced lanes of a queue, by process.
-- ?1 queue
SELECT worker, process FROM queue_workers WHERE queue = ?1 AND fenced ORDER BY process, worker LIMIT 500
