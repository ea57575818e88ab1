-- The groups: the line of each, whether it is eligible, the number of its running jobs, how the job
-- that blocks the group line may be served (1: as eligible, 2: as a suspect, 0: not, NULL: no job
-- blocks it), whether a job may start that is not a suspect, and whether there is a suspect.
-- ?1 queue, ?2 state in a line, ?3 the same of suspects, ?4 state in a chain
SELECT name, line, eligible, (SELECT count(*) FROM queue_holders WHERE queue = ?1 AND name = groups.name),
    CASE WHEN front IS NOT NULL THEN ifnull((SELECT CASE state WHEN ?2 THEN 1 WHEN ?3 THEN 2
        WHEN ?4 THEN EXISTS (SELECT 1 FROM queue_chains WHERE chain = rank AND shut IS NULL) ELSE 0 END
        FROM queue_jobs WHERE queue = ?1 AND id = front), 0) END,
    EXISTS (SELECT 1 FROM queue_jobs WHERE queue = ?1 AND state = ?2 AND rank = line)
        OR EXISTS (SELECT 1 FROM queue_chains WHERE queue = ?1 AND queue_chains.name = groups.name AND shut IS NULL),
    EXISTS (SELECT 1 FROM queue_jobs WHERE queue = ?1 AND state = ?3 AND rank = line)
FROM queue_groups AS groups WHERE queue = ?1
