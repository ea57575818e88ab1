-- Slots of groups whose jobs do not run, or are of another group.
-- ?1 queue, ?2 state active, ?3 limit
SELECT id, name FROM queue_holders AS slot WHERE queue = ?1 AND NOT EXISTS (
    SELECT 1 FROM queue_jobs JOIN queue_grouped USING (queue, id)
    WHERE queue_jobs.queue = ?1 AND queue_jobs.id = slot.id AND state = ?2 AND name = slot.name) LIMIT ?3
