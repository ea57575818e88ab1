-- Jobs with limits that run, and hold fewer slots than they have keys.
-- ?1 queue, ?2 state active, ?3 limit
SELECT job.id, limited.keys FROM queue_jobs AS job CROSS JOIN queue_limited AS limited ON limited.queue = ?1 AND limited.id = job.id
WHERE job.queue = ?1 AND job.state = ?2
AND (SELECT count(*) FROM queue_slots WHERE queue = ?1 AND id = job.id AND instr(limited.keys, key) > 0) < (length(limited.keys) - 1) / 16 LIMIT ?3
