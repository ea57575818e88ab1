-- All entries of the index of tags with the envelopes of their jobs.
-- ?1 queue
SELECT tag.id, tag.digest, job.envelope FROM queue_tags AS tag CROSS JOIN queue_jobs AS job ON job.queue = tag.queue AND job.id = tag.id WHERE tag.queue = ?1
