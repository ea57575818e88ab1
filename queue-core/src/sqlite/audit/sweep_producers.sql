-- Removes producers that have not been seen for long.
-- ?1 queue, ?2 seen until then, ?3 limit, ?4 seen until then where the answers are those of a relay
DELETE FROM queue_producers WHERE queue = ?1 AND name IN
(SELECT name FROM queue_producers WHERE queue = ?1 AND seen <= ?2 AND (seen <= ?4 OR substr(answers, 1, 1) IS NOT X'FF') LIMIT ?3)
