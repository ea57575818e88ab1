-- A parked job, as `Waiting` reads it.
-- ?1 queue, ?2 id, ?3 state parked
SELECT id, envelope, attempts, crashes, snoozes FROM queue_jobs WHERE queue = ?1 AND id = ?2 AND state = ?3
