-- A job that has ended begins anew, without an expiry, in the same round. Its place is for `ready_push.sql`.
-- ?1 queue, ?2 id, ?3 envelope, ?4 the bit of an odd round
UPDATE queue_jobs SET attempts = 0, crashes = 0, first_crash = NULL, snoozes = snoozes & ?4, releases = 0, released = NULL, ended = NULL, note = NULL, envelope = ?3
WHERE queue = ?1 AND id = ?2
