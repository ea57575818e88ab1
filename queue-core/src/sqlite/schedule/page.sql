-- Schedules by the time at which they are due; those that are not due at all come last.
-- ?1 queue, ?2 limit, ?3 offset
SELECT name, definition, state FROM queue_schedules WHERE queue = ?1 ORDER BY due IS NULL, due, name LIMIT ?2 OFFSET ?3
