-- Gives a job the rank that its state asks for, where another program has written something else.
-- ?1 queue, ?2 id
UPDATE queue_jobs SET rank = 0 WHERE queue = ?1 AND id = ?2
