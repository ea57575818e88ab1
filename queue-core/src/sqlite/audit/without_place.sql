-- Jobs with a number that means no state, or a place that no query finds. Active jobs (4) have any rank, those of groups (11, 12) that of a line, those with limits (13) that of a chain.
-- ?1 queue, ?2 state ready, ?3 limit
SELECT id, state FROM queue_jobs
WHERE queue = ?1 AND (state NOT IN (0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13) OR typeof(pos) <> 'integer'
OR (state NOT IN (?2, 4, 11, 12, 13) AND rank <> 0)) LIMIT ?3
