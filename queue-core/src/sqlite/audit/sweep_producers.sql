-- Removes producers that have not been seen for long.
-- ?1 queue, ?2 seen until then, ?3 limit
DELETE FROM queue_producers WHERE queue = ?1 AND name IN
(SELECT name FROM queue_producers WHERE queue = ?1 AND seen <= ?2 LIMIT ?3)
