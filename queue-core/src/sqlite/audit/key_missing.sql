-- Jobs that have not ended and whose key nobody holds, but those that hold it until they start, and have started, and those from which a person has
-- taken it.
-- ?1 queue, ?2 state held, ?3 limit
SELECT id, state FROM queue_keyed JOIN queue_jobs USING (queue, id)
WHERE queue = ?1 AND hold <> 'within' AND first > 0 AND state NOT IN (6, 7, 8, 9, ?2) AND NOT (hold = 'started' AND state = 4)
AND NOT EXISTS (SELECT 1 FROM queue_keys WHERE queue = ?1 AND key = queue_keyed.key) LIMIT ?3
