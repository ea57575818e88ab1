-- Gives a key to a job. Who waits for the key goes on waiting.
-- ?1 queue, ?2 key, ?3 id, ?4 until when, ?5 for how long: nothing unless it is for a time
INSERT INTO queue_keys (queue, key, id, until, term) VALUES (?1, ?2, ?3, ?4, ?5)
ON CONFLICT DO UPDATE SET id = excluded.id, until = excluded.until, term = excluded.term
