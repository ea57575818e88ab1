-- Changes a schedule.
-- ?1 queue, ?2 name, ?3 definition, or nothing if it stays, ?4 state, ?5 due, ?6 whether code declares it
UPDATE queue_schedules SET definition = ifnull(?3, definition), state = ?4, due = ?5, declared = ?6 WHERE queue = ?1 AND name = ?2
