-- Jobs that are held, and that no key knows of.
-- ?1 queue, ?2 state held, ?3 limit
SELECT id, state FROM queue_jobs WHERE queue = ?1 AND state = ?2
AND NOT EXISTS (SELECT 1 FROM queue_keyed JOIN queue_keys USING (queue, key)
WHERE queue_keyed.queue = ?1 AND queue_keyed.id = queue_jobs.id AND next = queue_jobs.id) LIMIT ?3
