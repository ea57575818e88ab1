-- The suspects that stand first in the lines of groups that may be served, by group; who holds the line of each, and whose line it is. Only lines with suspects
-- are looked at: they are few, and the groups may be many.
-- ?1 queue, ?2 state (suspect in the line of a group), ?3 limit
WITH RECURSIVE lines (line) AS (
    SELECT min(rank) FROM queue_jobs WHERE queue = ?1 AND state = ?2
    UNION ALL SELECT (SELECT min(rank) FROM queue_jobs WHERE queue = ?1 AND state = ?2 AND rank > lines.line) FROM lines WHERE lines.line IS NOT NULL
)
SELECT job.id, groups.name, groups.start, groups.front FROM lines CROSS JOIN queue_groups AS groups ON groups.line = lines.line
CROSS JOIN queue_jobs AS job ON job.queue = ?1 AND job.state = ?2 AND job.rank = groups.line
WHERE groups.queue = ?1 AND groups.turn = 1
ORDER BY groups.name, job.pos LIMIT ?3
