-- Jobs of a queue behind an id, as `record.rs` reads them: an id never changes, in none of the states of its job.
-- ?1 queue, ?2 id, ?3 limit
SELECT job.id, job.state, job.envelope, job.priority, job.attempts, job.crashes, job.snoozes, job.pos, job.ended, job.note, job.rank, job.releases, job.released, job.failures
FROM queue_jobs AS job WHERE job.queue = ?1 AND job.id > ?2 ORDER BY job.id LIMIT ?3
