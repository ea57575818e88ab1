-- The schedules that are due after a time, the first due first.
-- ?1 queue, ?2 limit, ?3 offset, ?4 that time
SELECT name, definition, state FROM queue_schedules WHERE queue = ?1 AND due > ?4 ORDER BY due, name LIMIT ?2 OFFSET ?3
