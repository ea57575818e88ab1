-- Lanes whose lease ends later than its term allows: the clock was put back.
-- ?1 queue, ?2 now, ?3 limit, ?4 offset
SELECT name, deadline, term FROM queue_lanes WHERE queue = ?1 AND NOT fenced AND deadline > ?2 + term ORDER BY deadline DESC, name LIMIT ?3 OFFSET ?4
