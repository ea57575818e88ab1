-- Jobs in a place that no query finds. Those that are ready (0) have their priority as rank, active ones (4) that of their lane, those of groups (11, 12) that of a line, those with limits (13) that of a chain.
-- ?1 queue, ?2 state ready, ?3 limit
SELECT id, state FROM queue_jobs WHERE queue = ?1 AND state NOT IN (?2, 4, 11, 12, 13) AND rank <> 0 LIMIT ?3
