-- The suspects of the groups with one that may start, by the start of the group, behind a place; who holds the line of each.
-- ?1 queue, ?2 state (suspect in the line of a group), ?3 start, ?4 group, ?5 place in its line, ?6 limit
SELECT job.id, groups.name, groups.start, groups.front, job.pos FROM queue_groups AS groups
CROSS JOIN queue_jobs AS job ON job.queue = ?1 AND job.state = ?2 AND job.rank = groups.line
WHERE groups.queue = ?1 AND groups.turn & 2 AND (groups.start, groups.name) >= (?3, ?4)
AND (groups.start > ?3 OR groups.name > ?4 OR job.pos > ?5)
ORDER BY groups.start, groups.name, job.pos LIMIT ?6
