-- Jobs of one state and rank in order, as `people/record.rs` reads them. The index alone is read for those that are left out.
-- ?1 queue, ?2 limit, ?3 offset, ?4 state, ?5 rank, ?6 from this pos on
SELECT job.id, job.state, job.envelope, job.priority, job.attempts, job.crashes, job.snoozes, job.pos, job.ended, job.note, job.rank, job.releases, job.released, job.failures
FROM (SELECT id FROM queue_jobs WHERE queue = ?1 AND state = ?4 AND rank = ?5 AND pos >= ?6 ORDER BY pos, id LIMIT ?2 OFFSET ?3) AS page
CROSS JOIN queue_jobs AS job ON job.queue = ?1 AND job.id = page.id ORDER BY job.pos, job.id
