-- Makes a dead letter of a job. Gives its bytes.
-- ?1 queue, ?2 id, ?3 state dead, ?4 now, ?5 reason
UPDATE queue_jobs SET state = ?3, rank = 0, pos = ?4, ended = ?4, note = ?5
WHERE queue = ?1 AND id = ?2 RETURNING length(envelope)
