-- Removes keys that were held for a time which is over.
-- ?1 queue, ?2 now, ?3 limit
DELETE FROM queue_keys WHERE queue = ?1 AND key IN
(SELECT key FROM queue_keys WHERE queue = ?1 AND until IS NOT NULL AND until <= ?2 ORDER BY until LIMIT ?3)
