-- Of the keys that are held for a time, those that end last: no clock could have set a time beyond their term.
-- ?1 queue, ?2 now, ?3 limit
UPDATE queue_keys SET until = ?2 + term WHERE queue = ?1 AND until > ?2 + term AND key IN
(SELECT key FROM queue_keys WHERE queue = ?1 AND until IS NOT NULL ORDER BY until DESC LIMIT ?3)
