-- Jobs of a queue by their ids: an id never changes, whatever becomes of the job.
-- ?1 queue, ?2 behind this id, ?3 limit
SELECT id, state FROM queue_jobs WHERE queue = ?1 AND id > ?2 ORDER BY id LIMIT ?3
