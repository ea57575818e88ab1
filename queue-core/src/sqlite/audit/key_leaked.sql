-- Keys without a hold time that are not held by a job that may hold them.
-- ?1 queue, ?2 state held, ?3 limit
SELECT key, id FROM queue_keys WHERE queue = ?1 AND until IS NULL AND NOT EXISTS (SELECT 1 FROM queue_jobs JOIN queue_keyed USING (queue, id)
WHERE queue = ?1 AND id = queue_keys.id AND queue_keyed.key = queue_keys.key AND state NOT IN (6, 7, 8, 9, ?2)) LIMIT ?3
