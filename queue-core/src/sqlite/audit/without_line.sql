-- Jobs of groups that are ready, in a line that is no group's, and those with limits that are in no chain.
-- ?1 queue, ?2 state ready in a line, ?3 limit
SELECT id, state FROM queue_jobs
WHERE queue = ?1 AND (state IN (?2, ?2 + 1) AND rank NOT IN (SELECT line FROM queue_groups WHERE queue = ?1)
OR state = ?2 + 2 AND rank NOT IN (SELECT chain FROM queue_chains WHERE queue = ?1)) LIMIT ?3
