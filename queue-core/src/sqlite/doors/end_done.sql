-- Keeps a job that is done. Gives its bytes, those of its result included.
-- ?1 queue, ?2 id, ?3 state done, ?4 pos: until when it is kept, ?5 now, ?6 result
UPDATE queue_jobs SET state = ?3, rank = 0, pos = ?4, ended = ?5, result = ?6
WHERE queue = ?1 AND id = ?2 RETURNING length(envelope) + ifnull(length(result), 0)
