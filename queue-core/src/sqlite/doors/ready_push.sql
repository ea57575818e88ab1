-- Puts a job into the line: as a suspect (1) if it has crashes, else (0) by its priority.
-- ?1 queue, ?2 id, ?3 pos
UPDATE queue_jobs SET state = crashes > 0, rank = CASE WHEN crashes > 0 THEN 0 ELSE priority END, pos = ?3
WHERE queue = ?1 AND id = ?2
