-- The workers that have a lane, and their records.
-- ?1 queue
SELECT DISTINCT CAST(process AS BLOB), record FROM queue_lanes LEFT JOIN queue_workers USING (queue, process) WHERE queue = ?1 AND NOT fenced
