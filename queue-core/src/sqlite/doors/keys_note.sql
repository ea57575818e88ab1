-- Notes the key of a new job.
-- ?1 queue, ?2 id, ?3 key, ?4 for how long it is held, ?5 now
INSERT OR REPLACE INTO queue_keyed (queue, id, key, hold, first) VALUES (?1, ?2, ?3, ?4, ?5)
