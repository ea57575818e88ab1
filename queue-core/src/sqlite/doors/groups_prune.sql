-- Forgets groups of which nothing is left but a start that the virtual time has passed, or any start where nothing waits.
-- ?1 queue, ?2 state in a line, ?3 the same of suspects, ?4 limit, ?5 up to which start
DELETE FROM queue_groups WHERE line IN (
    SELECT line FROM queue_groups AS old WHERE queue = ?1 AND turn = 0 AND front IS NULL AND start <= ?5
    AND NOT EXISTS (SELECT 1 FROM queue_chains WHERE queue_chains.queue = ?1 AND queue_chains.name = old.name)
    AND NOT EXISTS (SELECT 1 FROM queue_jobs WHERE queue = ?1 AND state = ?2 AND rank = old.line)
    AND NOT EXISTS (SELECT 1 FROM queue_jobs WHERE queue = ?1 AND state = ?3 AND rank = old.line) ORDER BY start LIMIT ?4)
