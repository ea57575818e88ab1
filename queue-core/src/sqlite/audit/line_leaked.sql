-- Groups whose line is held by a job that has ended or is not there.
-- ?1 queue, ?2 zero, ?3 limit
SELECT name, front FROM queue_groups WHERE queue = ?1 AND front IS NOT NULL AND NOT EXISTS (
    SELECT 1 FROM queue_jobs WHERE queue = ?1 AND id = front AND state NOT IN (6, 7, 8, 9) AND rank >= ?2) LIMIT ?3
