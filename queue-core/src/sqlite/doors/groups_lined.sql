-- Groups with jobs in their lines, at most some: from one line to the next, whatever else the index has.
-- ?1 queue, ?2 state (in the line of a group), ?3 limit
WITH RECURSIVE lines (line) AS (
    SELECT min(rank) FROM queue_jobs WHERE queue = ?1 AND state = ?2
    UNION ALL SELECT (SELECT min(rank) FROM queue_jobs WHERE queue = ?1 AND state = ?2 AND rank > lines.line) FROM lines WHERE lines.line IS NOT NULL
    LIMIT ?3
)
SELECT groups.name FROM lines CROSS JOIN queue_groups AS groups ON groups.line = lines.line WHERE groups.queue = ?1
