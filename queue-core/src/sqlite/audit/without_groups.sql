-- Jobs in the line of a group, where no job has a group.
-- ?1 queue, ?2 state ready in a line, ?3 limit
SELECT id, state FROM queue_jobs WHERE queue = ?1 AND state IN (?2, ?2 + 1) LIMIT ?3
