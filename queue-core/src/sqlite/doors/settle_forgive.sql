-- Forgives the crashes of a job that its process has survived.
-- ?1 queue, ?2 id
UPDATE queue_jobs SET crashes = 0, first_crash = NULL WHERE queue = ?1 AND id = ?2 AND crashes > 0
