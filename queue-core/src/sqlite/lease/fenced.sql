-- The fenced lanes of a queue, by process. The third column is the time until which each lane may
-- have lived. The fourth is the time of its last renewal, or 0 if the clock was not right then.
-- ?1 queue, ?2 now
SELECT lane, process, min(deadline, ?2), CASE WHEN deadline - duration BETWEEN 0 AND ?2 THEN deadline - duration ELSE 0 END FROM queue_lanes
WHERE queue = ?1 AND fenced ORDER BY process, lane LIMIT 500
