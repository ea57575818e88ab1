-- Lanes whose lease is over, the longest first.
-- ?1 queue, ?2 now, ?3 limit, ?4 offset
SELECT name, deadline FROM queue_lanes WHERE queue = ?1 AND NOT fenced AND deadline <= ?2 ORDER BY deadline, name LIMIT ?3 OFFSET ?4
