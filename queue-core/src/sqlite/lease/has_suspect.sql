-- Whether any lane of a process holds a suspect, also one whose own lease still stands.
-- ?1 queue, ?2 process, ?3 state active
SELECT EXISTS (SELECT 1 FROM queue_workers JOIN queue_jobs ON queue_jobs.queue = queue_workers.queue
AND queue_jobs.state = ?3 AND queue_jobs.rank = queue_workers.worker
WHERE queue_workers.queue = ?1 AND queue_workers.process = ?2 AND queue_jobs.crashes > 0)
