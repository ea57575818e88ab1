-- Workers of which something is stored and that have no lane. A fenced lane is none.
-- ?1 queue, ?2 nothing, ?3 limit
SELECT CAST(process AS BLOB), ?2 FROM (SELECT queue, process FROM queue_workers UNION SELECT queue, process FROM queue_loads)
WHERE queue = ?1 AND process NOT IN (SELECT process FROM queue_lanes WHERE queue = ?1 AND NOT fenced) LIMIT ?3
