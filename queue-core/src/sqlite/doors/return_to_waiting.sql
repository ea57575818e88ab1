-- Moves a job to a waiting state outside the line.
-- ?1 queue, ?2 id, ?3 state (scheduled, retry or parked), ?4 pos: when it is due, or for a parked
-- job: when it is buried
UPDATE queue_jobs SET state = ?3, rank = 0, pos = ?4 WHERE queue = ?1 AND id = ?2
