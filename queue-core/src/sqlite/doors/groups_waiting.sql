-- A job that waits in the line of its group, as `Waiting` reads it.
-- ?1 queue, ?2 id, ?3 state (in the line of a group)
SELECT id, envelope, attempts, crashes, snoozes FROM queue_jobs WHERE queue = ?1 AND id = ?2 AND state = ?3
