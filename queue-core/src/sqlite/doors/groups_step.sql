-- The next groups with a line, behind one.
-- ?1 queue, ?2 name, ?3 limit
SELECT name FROM queue_groups WHERE queue = ?1 AND name > ?2 ORDER BY name LIMIT ?3
