-- Forgives the crashes of a job that its process has survived, and the releases that could not read it: its own has.
-- ?1 queue, ?2 id
UPDATE queue_jobs SET crashes = 0, first_crash = NULL, note = NULL
WHERE queue = ?1 AND id = ?2 AND (crashes > 0 OR note IS NOT NULL)
