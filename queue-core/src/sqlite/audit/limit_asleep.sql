-- Chains that are shut under a key at which nobody will look. Whether it has room is asked afterwards.
-- ?1 queue, ?2 nothing, ?3 limit
SELECT DISTINCT shut, ?2 FROM queue_chains WHERE queue = ?1 AND shut IS NOT NULL
AND NOT EXISTS (SELECT 1 FROM queue_wakes WHERE queue_wakes.queue = ?1 AND queue_wakes.key = queue_chains.shut) LIMIT ?3
