-- Groups with jobs that have limits, at most some: from one name to the next.
-- ?1 queue, ?2 limit
WITH RECURSIVE names (name) AS (
    SELECT min(name) FROM queue_chains WHERE queue = ?1
    UNION ALL SELECT (SELECT min(name) FROM queue_chains WHERE queue = ?1 AND name > names.name) FROM names WHERE names.name IS NOT NULL
    LIMIT ?2
)
SELECT name FROM names WHERE name IS NOT NULL
