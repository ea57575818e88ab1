-- Gives a job the place that its state asks for, where another program has written something else.
-- ?1 queue, ?2 id, ?3 now, where pos is no number
UPDATE queue_jobs SET rank = 0, pos = CASE typeof(pos) WHEN 'integer' THEN pos ELSE ?3 END WHERE queue = ?1 AND id = ?2
