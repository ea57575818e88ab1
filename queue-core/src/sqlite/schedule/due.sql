-- The schedules that are due, the first due first.
-- ?1 queue, ?2 now, ?3 limit
SELECT name, definition, state FROM queue_schedules WHERE queue = ?1 AND due <= ?2 ORDER BY due LIMIT ?3
