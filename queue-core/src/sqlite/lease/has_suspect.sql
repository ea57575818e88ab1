-- Whether any lane of a process holds a suspect, also one whose own lease still stands. A job is none whose process lived for longer in this run than it may have in the
-- one that it crashed in.
-- ?1 queue, ?2 process, ?3 state active, ?4 now
SELECT EXISTS (SELECT 1 FROM queue_lanes JOIN queue_jobs INDEXED BY queue_jobs_order ON queue_jobs.queue = queue_lanes.queue
AND queue_jobs.state = ?3 AND queue_jobs.rank = queue_lanes.lane
WHERE queue_lanes.queue = ?1 AND queue_lanes.name BETWEEN ?2 || '.' AND ?2 || '/' AND queue_lanes.process = ?2 AND queue_jobs.crashes > 0
AND NOT ifnull(fenced AND deadline - term BETWEEN 0 AND ?4 AND deadline - term - queue_jobs.pos > queue_jobs.ran, 0))
