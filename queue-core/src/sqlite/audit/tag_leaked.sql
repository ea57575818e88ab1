-- Entries of the index of tags without a job.
-- ?1 queue, ?2 anything, ?3 limit
SELECT id, digest FROM queue_tags WHERE queue = ?1 AND ?2 IS NOT NULL
AND NOT EXISTS (SELECT 1 FROM queue_jobs WHERE queue = ?1 AND id = queue_tags.id) LIMIT ?3
