-- Whether any lane of a process holds a suspect, also one whose own lease still stands.
-- ?1 queue, ?2 process, ?3 state active
SELECT EXISTS (SELECT 1 FROM queue_lanes JOIN queue_jobs ON queue_jobs.queue = queue_lanes.queue
AND queue_jobs.state = ?3 AND queue_jobs.rank = queue_lanes.lane
WHERE queue_lanes.queue = ?1 AND queue_lanes.process = ?2 AND queue_jobs.crashes > 0)
