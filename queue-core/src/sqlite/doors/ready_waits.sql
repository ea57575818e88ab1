-- Whether anything stands in the line, and whether a suspect does.
-- ?1 queue, ?2 state ready, ?3 state of suspects
SELECT EXISTS (SELECT 1 FROM queue_jobs WHERE queue = ?1 AND state = ?2),
       EXISTS (SELECT 1 FROM queue_jobs WHERE queue = ?1 AND state = ?3)
