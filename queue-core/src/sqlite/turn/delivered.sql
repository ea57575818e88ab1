-- A job that the last turn delivered to a lane, if the lane still holds it.
-- ?1 queue, ?2 id, ?3 state active, ?4 lane, ?5 claim
SELECT envelope, attempts, crashes, snoozes FROM queue_jobs
WHERE queue = ?1 AND id = ?2 AND state = ?3 AND rank = ?4 AND pos = ?5
