-- Jobs of groups that run, and hold no slot.
-- ?1 queue, ?2 state active, ?3 limit
SELECT job.id, grouped.name FROM queue_jobs AS job CROSS JOIN queue_grouped AS grouped ON grouped.queue = ?1 AND grouped.id = job.id
WHERE job.queue = ?1 AND job.state = ?2
AND NOT EXISTS (SELECT 1 FROM queue_holders WHERE queue = ?1 AND name = grouped.name AND id = job.id) LIMIT ?3
