-- Jobs in the line of a group, or with limits, where no job has any.
-- ?1 queue, ?2 state ready in a line, ?3 limit
SELECT id, state FROM queue_jobs WHERE queue = ?1 AND state IN (?2, ?2 + 1, ?2 + 2) LIMIT ?3
