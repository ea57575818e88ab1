-- Whether the first job in the line of a group may be looked at, suspects left out: one with limits may if its chain is open.
-- ?1 queue, ?2 name, ?3 line, ?4 state in a line, ?5 state in a chain
SELECT is_open FROM (
    SELECT * FROM (SELECT (pos >> 56) - 1 AS priority, pos & 0xffffffffffffff AS number, 1 AS is_open FROM queue_jobs
        WHERE queue = ?1 AND state = ?4 AND rank = ?3 ORDER BY pos LIMIT 1)
    UNION ALL SELECT priority, (SELECT min(pos) FROM queue_jobs WHERE queue = ?1 AND state = ?5 AND rank = chain), shut IS NULL
        FROM queue_chains WHERE queue = ?1 AND name = ?2
) WHERE number IS NOT NULL ORDER BY priority, number LIMIT 1
