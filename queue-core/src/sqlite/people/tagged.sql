-- Jobs that have a tag behind an id, as `record.rs` reads them, and the id of each entry.
-- ?1 queue, ?2 digest of the tag, ?3 id, ?4 limit
SELECT job.id, job.state, job.envelope, job.priority, job.attempts, job.crashes, job.snoozes, job.pos, job.ended, job.note, job.rank, job.releases, job.released, job.failures,
    tag.id
FROM (SELECT id FROM queue_tags WHERE queue = ?1 AND digest = ?2 AND id > ?3 ORDER BY id LIMIT ?4) AS tag
LEFT JOIN queue_jobs AS job ON job.queue = ?1 AND job.id = tag.id ORDER BY tag.id
