-- The last jobs of one state and rank, from the last one back, as `people/record.rs` reads them.
-- ?1 queue, ?2 limit, ?3 state, ?4 rank
SELECT job.id, job.state, job.envelope, job.priority, job.attempts, job.crashes, job.snoozes, job.pos, job.ended, job.note, job.rank, job.releases, job.released, job.failures
FROM (SELECT id FROM queue_jobs WHERE queue = ?1 AND state = ?3 AND rank = ?4 ORDER BY pos DESC, id DESC LIMIT ?2) AS page
CROSS JOIN queue_jobs AS job ON job.queue = ?1 AND job.id = page.id ORDER BY job.pos DESC, job.id DESC
