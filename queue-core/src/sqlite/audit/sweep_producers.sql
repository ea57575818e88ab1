-- Removes producers that have not been seen for long.
-- ?1 queue, ?2 seen until then, ?3 limit, ?4 seen until then where the answers are those of a relay
DELETE FROM queue_producers WHERE queue = ?1 AND name IN (
    SELECT name FROM (SELECT name FROM queue_producers WHERE queue = ?1 AND (substr(answers, 1, 1) IS X'FF') = 0 AND seen <= ?2 LIMIT ?3)
    UNION ALL SELECT name FROM (SELECT name FROM queue_producers WHERE queue = ?1 AND (substr(answers, 1, 1) IS X'FF') = 1 AND seen <= ?4 LIMIT ?3)
    LIMIT ?3
)
