-- Groups without a turn whose start the virtual time has passed, behind one: the line, the start, and whether the group has a job in its line.
-- ?1 queue, ?2 state in a line, ?3 the same of suspects, ?4 limit, ?5 up to which start, ?6 start, ?7 line
SELECT line, start, EXISTS (SELECT 1 FROM queue_chains WHERE queue_chains.queue = ?1 AND queue_chains.name = old.name)
    OR EXISTS (SELECT 1 FROM queue_jobs WHERE queue = ?1 AND state = ?2 AND rank = old.line)
    OR EXISTS (SELECT 1 FROM queue_jobs WHERE queue = ?1 AND state = ?3 AND rank = old.line)
FROM queue_groups AS old WHERE queue = ?1 AND turn = 0 AND front IS NULL AND start <= ?5 AND (start, line) > (?6, ?7)
ORDER BY start, line LIMIT ?4
