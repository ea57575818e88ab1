-- The fenced lanes of a queue, by process.
-- ?1 queue
SELECT lane, process FROM queue_lanes WHERE queue = ?1 AND fenced ORDER BY process, lane LIMIT 500
