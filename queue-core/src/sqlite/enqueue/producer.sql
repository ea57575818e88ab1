-- The producer of a request: its last sequence, and its answers where they were not all `Stored`.
-- ?1 queue, ?2 name
SELECT seq, answers FROM queue_producers WHERE queue = ?1 AND name = ?2
