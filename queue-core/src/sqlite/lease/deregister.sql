-- Removes the record of a worker that has no lane any more. A fenced lane is none. The name of a lane begins with its process and a point: so the index finds it.
-- ?1 queue, ?2 name of its process
DELETE FROM queue_workers WHERE queue = ?1 AND process = ?2
AND NOT EXISTS (SELECT 1 FROM queue_lanes WHERE queue = ?1
    AND name BETWEEN ?2 || '.' AND ?2 || '/' AND process = ?2 AND NOT fenced)
