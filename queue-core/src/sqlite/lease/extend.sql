-- Renews the lease of a lane. Gives its row; none when it is fenced, or the file does not know the
-- turn that it had answered last.
-- ?1 queue, ?2 name, ?3 last answered turn, ?4 deadline
UPDATE queue_lanes SET deadline = ?4 WHERE queue = ?1 AND name = ?2 AND seq >= ?3 AND NOT fenced RETURNING lane
