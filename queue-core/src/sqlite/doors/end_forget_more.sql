-- Removes the oldest remembered ids.
-- ?1 queue, ?2 limit
DELETE FROM queue_remembered WHERE queue = ?1 AND id IN
(SELECT id FROM queue_remembered WHERE queue = ?1 ORDER BY ended LIMIT ?2)
