-- Makes a schedule.
-- ?1 queue, ?2 name, ?3 definition, ?4 state, ?5 due, ?6 whether code declares it
INSERT INTO queue_schedules (queue, name, definition, state, due, declared) VALUES (?1, ?2, ifnull(?3, x''), ?4, ?5, ?6)
