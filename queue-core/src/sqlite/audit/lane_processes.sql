-- The workers that have a lane.
-- ?1 queue
SELECT DISTINCT process FROM queue_lanes WHERE queue = ?1 AND NOT fenced
