-- Lanes whose deadline never comes.
-- ?1 queue, ?2 the last deadline that is one, ?3 limit
SELECT CAST(name AS BLOB), lane FROM queue_lanes WHERE queue = ?1 AND deadline > ?2 LIMIT ?3
