-- The suspects that stand first in the lines of groups that may be served, by group; who holds the line of each, and whose line it is.
-- ?1 queue, ?2 state (suspect in the line of a group), ?3 limit
SELECT job.id, groups.name, groups.start, groups.front FROM queue_groups AS groups
CROSS JOIN queue_jobs AS job ON job.queue = ?1 AND job.state = ?2 AND job.rank = groups.line
WHERE groups.queue = ?1 AND groups.turn = 1 AND EXISTS (SELECT 1 FROM queue_jobs WHERE queue = ?1 AND state = ?2)
ORDER BY groups.name, job.pos LIMIT ?3
