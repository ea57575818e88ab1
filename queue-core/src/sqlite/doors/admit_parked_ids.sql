-- The entries of a task's parked jobs, with the crashes of each.
-- ?1 queue, ?2 task, ?3 whether suspects may be among them, ?4 limit
SELECT id, ifnull(crashes, 0) FROM queue_parked LEFT JOIN queue_jobs USING (queue, id)
WHERE queue = ?1 AND task = ?2 AND (?3 OR ifnull(crashes, 0) = 0) LIMIT ?4
