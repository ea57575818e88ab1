-- The fenced lanes of a queue, by process; until when each may have lived, and when it renewed its
-- lease last, if its clock was right.
-- ?1 queue, ?2 now
SELECT lane, process, min(deadline, ?2), CASE WHEN deadline - duration BETWEEN 0 AND ?2 THEN deadline - duration ELSE 0 END FROM queue_lanes
WHERE queue = ?1 AND fenced ORDER BY process, lane LIMIT 500
