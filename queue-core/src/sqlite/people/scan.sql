-- Jobs of one state behind a place, as `record.rs` reads them. The index is searched for the place, and read from there on.
-- ?1 queue, ?2 state, ?3 rank, ?4 pos, ?5 id, ?6 limit
SELECT job.id, job.state, job.envelope, job.priority, job.attempts, job.crashes, job.snoozes, job.pos, job.ended, job.note, job.rank, job.releases, job.released, job.failures
FROM (
    SELECT id, rank, pos FROM queue_jobs WHERE queue = ?1 AND state = ?2 AND (rank, pos, id) > (?3, ?4, ?5) ORDER BY rank, pos, id LIMIT ?6
) AS page
CROSS JOIN queue_jobs AS job ON job.queue = ?1 AND job.id = page.id ORDER BY page.rank, page.pos, page.id
