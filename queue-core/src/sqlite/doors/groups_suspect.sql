-- The first suspects of the groups with one that may start, by the start of the group; who holds the line of each, and whose line it is.
-- ?1 queue, ?2 state (suspect in the line of a group)
SELECT job.id, groups.name, groups.start, groups.front FROM queue_groups AS groups
CROSS JOIN queue_jobs AS job ON job.queue = ?1 AND job.state = ?2 AND job.rank = groups.line
WHERE groups.queue = ?1 AND groups.turn & 2
ORDER BY groups.start, groups.name, job.pos
