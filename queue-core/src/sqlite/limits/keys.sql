-- The keys of a limit that are held or waited for, from one on.
-- ?1 queue, ?2 the first, ?3 behind the last, ?4 limit, ?5 without the first
SELECT key FROM (
    SELECT DISTINCT key FROM queue_slots WHERE queue = ?1 AND key >= ?2 AND key < ?3
    UNION SELECT DISTINCT shut FROM queue_chains WHERE queue = ?1 AND shut >= ?2 AND shut < ?3
) WHERE NOT ?5 OR key > ?2 ORDER BY key LIMIT ?4
