-- Renews the lease of a lane and returns the lane's row number. Returns no row if the lane is
-- fenced, or if the file does not have the last turn that the lane has answered.
-- ?1 queue, ?2 name, ?3 last answered turn, ?4 deadline
UPDATE queue_lanes SET deadline = ?4 WHERE queue = ?1 AND name = ?2 AND seq >= ?3 AND NOT fenced RETURNING lane
