-- Removes old remembered ids.
-- ?1 queue, ?2 ended until then, ?3 limit
DELETE FROM queue_remembered WHERE queue = ?1 AND id IN
(SELECT id FROM queue_remembered WHERE queue = ?1 AND ended <= ?2 ORDER BY ended LIMIT ?3)
