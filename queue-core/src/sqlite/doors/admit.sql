-- Makes a job active: its tag is its place.
-- ?1 queue, ?2 id, ?3 state active, ?4 lane, ?5 claim
UPDATE queue_jobs SET state = ?3, rank = ?4, pos = ?5 WHERE queue = ?1 AND id = ?2
