-- The suspects that stand first in the lines of groups that may be served, by group; who holds the line of each, and whose line it is. The suspects are read
-- first: they are few, and the groups may be many.
-- ?1 queue, ?2 state (suspect in the line of a group), ?3 limit
SELECT job.id, groups.name, groups.start, groups.front FROM queue_jobs AS job CROSS JOIN queue_groups AS groups ON groups.line = job.rank
WHERE job.queue = ?1 AND job.state = ?2 AND groups.queue = ?1 AND groups.turn = 1
ORDER BY groups.name, job.pos LIMIT ?3
