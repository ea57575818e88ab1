-- Lanes whose lease ends later than its term allows.
-- ?1 queue, ?2 now, ?3 limit
SELECT CAST(name AS BLOB), lane FROM queue_lanes
WHERE queue = ?1 AND NOT fenced AND deadline > ?2 + term LIMIT ?3
