-- The same of what it uses.
-- ?1 queue, ?2 name of its process
DELETE FROM queue_loads WHERE queue = ?1 AND process = ?2
AND NOT EXISTS (SELECT 1 FROM queue_lanes WHERE queue = ?1
    AND name BETWEEN ?2 || '.' AND ?2 || '/' AND process = ?2 AND NOT fenced)
