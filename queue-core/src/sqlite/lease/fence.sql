-- Fences a lane whose deadline has not changed since it was read. The deadline has passed, or is
-- later than the lane's duration allows. Returns the lane's row number.
-- ?1 queue, ?2 name, ?3 the deadline that was read, ?4 now, ?5 the row number, if the name cannot
-- be read
UPDATE queue_lanes SET fenced = 1, answer = NULL
WHERE queue = ?1 AND lane = ifnull(?5, (SELECT lane FROM queue_lanes WHERE queue = ?1 AND name = ?2))
AND deadline = ?3 AND (deadline <= ?4 OR deadline > ?4 + duration) AND NOT fenced
RETURNING lane
