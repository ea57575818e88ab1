-- Jobs in the lines of groups, group by group, as `people/record.rs` reads them.
-- ?1 queue, ?2 limit, ?3 offset, ?4 state
SELECT job.id, job.state, job.envelope, job.priority, job.attempts, job.crashes, job.snoozes, job.pos, job.ended, job.note, job.rank, job.releases, job.released, job.failures
FROM queue_groups AS groups CROSS JOIN queue_jobs AS job ON job.queue = ?1 AND job.state = ?4 AND job.rank = groups.line
WHERE groups.queue = ?1 ORDER BY groups.name, job.pos LIMIT ?2 OFFSET ?3
