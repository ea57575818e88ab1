-- Ends a lane whose lease is still the one that was seen, and is over, or ends later than its
-- duration allows. Gives its number. ?1 queue, ?2 name, ?3 the deadline that was seen, ?4 now,
-- ?5 its number, if its name cannot be read
UPDATE queue_lanes SET fenced = 1, answer = NULL
WHERE queue = ?1 AND lane = ifnull(?5, (SELECT lane FROM queue_lanes WHERE queue = ?1 AND name = ?2))
AND deadline = ?3 AND (deadline <= ?4 OR deadline > ?4 + duration) AND NOT fenced
RETURNING lane
