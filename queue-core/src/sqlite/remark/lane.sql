-- A lane that is not fenced.
-- ?1 queue, ?2 name
SELECT lane FROM queue_lanes WHERE queue = ?1 AND name = ?2 AND NOT fenced
