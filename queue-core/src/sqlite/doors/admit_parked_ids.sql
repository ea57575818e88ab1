-- The entries of a task's parked jobs behind one, with the crashes of each.
-- ?1 queue, ?2 task, ?3 id, ?4 limit
SELECT id, ifnull(crashes, 0) FROM queue_parked LEFT JOIN queue_jobs USING (queue, id)
WHERE queue = ?1 AND task = ?2 AND id > ?3 ORDER BY id LIMIT ?4
