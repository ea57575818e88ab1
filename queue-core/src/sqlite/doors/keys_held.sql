-- Who holds a key, who waits for it, and whether the holder can hold one: it is there, has not ended, and is not held itself.
-- ?1 queue, ?2 key, ?3, ?4, ?5, ?6, ?7 the states done, dead, cancelled, expired, held
SELECT id, until, term, (SELECT jobs.id FROM queue_jobs AS jobs WHERE jobs.queue = ?1 AND jobs.id = queue_keys.next AND state = ?7),
EXISTS (SELECT 1 FROM queue_jobs AS jobs JOIN queue_keyed AS keyed ON keyed.queue = ?1 AND keyed.id = jobs.id
WHERE jobs.queue = ?1 AND jobs.id = queue_keys.id AND keyed.key = ?2 AND state NOT IN (?3, ?4, ?5, ?6, ?7))
FROM queue_keys WHERE queue = ?1 AND key = ?2
