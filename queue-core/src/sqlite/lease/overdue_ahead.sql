-- Lanes whose lease ends later than its term allows: the clock was put back.
-- ?1 queue, ?2 now, ?3 limit
SELECT name, deadline, term FROM queue_lanes WHERE queue = ?1 AND NOT fenced AND deadline > ?2 + term LIMIT ?3
