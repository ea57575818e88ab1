-- The first record of a final state: id, pos, bytes.
-- ?1 queue, ?2 state
SELECT id, pos, length(envelope) + ifnull(length(result), 0) FROM queue_jobs
WHERE queue = ?1 AND state = ?2 AND rank = 0 ORDER BY pos LIMIT 1
