-- Notes in a schedule that a job of it has ended.
-- ?1 queue, ?2 name, ?3 state, ?4 whether it is paused, ?5 whether it is due now, ?6 now
UPDATE queue_schedules SET due = CASE WHEN ?4 THEN NULL WHEN ?5 THEN ?6 ELSE due END, state = ?3 WHERE queue = ?1 AND name = ?2
