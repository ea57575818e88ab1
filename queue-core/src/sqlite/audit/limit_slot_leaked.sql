-- Slots of limits whose jobs do not run, or are not subject to them.
-- ?1 queue, ?2 state active, ?3 limit
SELECT id, key FROM queue_slots AS slot WHERE queue = ?1 AND NOT EXISTS (
    SELECT 1 FROM queue_jobs JOIN queue_limited USING (queue, id)
    WHERE queue_jobs.queue = ?1 AND queue_jobs.id = slot.id AND state = ?2 AND (instr(queue_limited.keys, slot.key) - 2) % 16 = 0) LIMIT ?3
