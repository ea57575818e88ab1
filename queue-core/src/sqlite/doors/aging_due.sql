-- Jobs that rise: those of one time in the order in which they stand. With the state and the crashes of the job.
-- ?1 queue, ?2 now, ?3 limit
SELECT rising.id, rising.at, rising.level, job.state, ifnull(job.crashes, 0) FROM queue_rising AS rising
LEFT JOIN queue_jobs AS job ON job.queue = rising.queue AND job.id = rising.id
WHERE rising.queue = ?1 AND rising.at <= ?2 ORDER BY rising.at, rising.place LIMIT ?3
