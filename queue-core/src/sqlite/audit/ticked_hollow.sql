-- Jobs of schedules that are noted as not ended, and that have ended or are not there.
-- ?1 queue, ?2 the last state, ?3 limit
SELECT id, run FROM queue_ticked WHERE queue = ?1 AND NOT EXISTS (SELECT 1 FROM queue_jobs
WHERE queue = ?1 AND id = queue_ticked.id AND state BETWEEN 0 AND ?2 AND state NOT IN (6, 7, 8, 9)) LIMIT ?3
