-- The groups after a name that have a rule, or a job that is ready or running: at most the limit
-- from each table.
-- ?1 queue, ?2 name, ?3 limit
SELECT name FROM (
    SELECT * FROM (SELECT name FROM queue_groups AS groups WHERE queue = ?1 AND name > ?2 AND EXISTS (
        SELECT 1 FROM queue_jobs WHERE queue = ?1 AND state IN (11, 12) AND rank = groups.line
        UNION ALL SELECT 1 FROM queue_chains WHERE queue_chains.queue = ?1 AND queue_chains.name = groups.name)
        ORDER BY name LIMIT ?3)
    UNION SELECT * FROM (SELECT DISTINCT name FROM queue_holders WHERE queue = ?1 AND name > ?2 ORDER BY name LIMIT ?3)
    UNION SELECT * FROM (SELECT name FROM queue_rules WHERE queue = ?1 AND name > ?2 AND length(name) > 1 ORDER BY name LIMIT ?3)
) ORDER BY name LIMIT ?3
