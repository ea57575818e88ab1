-- Removes the record of a worker that has no lane any more. A fenced lane is none.
-- ?1 queue, ?2 name of its process
DELETE FROM queue_workers WHERE queue = ?1 AND process = ?2
AND NOT EXISTS (SELECT 1 FROM queue_lanes WHERE queue = ?1 AND process = ?2 AND NOT fenced)
