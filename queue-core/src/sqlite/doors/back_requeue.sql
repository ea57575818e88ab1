-- A dead letter begins anew. Gives its bytes; its place is for `ready_push.sql`.
-- ?1 queue, ?2 id, ?3 state dead
UPDATE queue_jobs SET attempts = 0, crashes = 0, first_crash = NULL, snoozes = 0, ended = NULL, note = NULL
WHERE queue = ?1 AND id = ?2 AND state = ?3 RETURNING length(envelope)
