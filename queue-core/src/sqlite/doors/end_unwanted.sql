-- Ends a job that nobody will run any more. Gives its bytes.
-- ?1 queue, ?2 id, ?3 state (cancelled or expired), ?4 pos: until when it is kept, ?5 now, ?6 reason
UPDATE queue_jobs SET state = ?3, rank = 0, pos = ?4, ended = ?5, note = ?6
WHERE queue = ?1 AND id = ?2 RETURNING length(envelope)
