-- Puts a job into the line of its group: among the suspects (12) if it has crashes, else (11) by its priority, or before all if it holds the line.
-- ?1 queue, ?2 id, ?3 line, ?4 number, ?5 whether it holds the line; answers its state
UPDATE queue_jobs SET state = 11 + (crashes > 0), rank = ?3, pos = CASE WHEN crashes > 0 OR ?5 THEN 0 ELSE (priority + 1) << 56 END + ?4
WHERE queue = ?1 AND id = ?2 RETURNING state
