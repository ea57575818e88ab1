-- The producer of a request: its last sequence, and its answers where they were not all `Stored`. A sequence that is none is of nobody.
-- ?1 queue, ?2 name
SELECT seq, answers FROM queue_producers WHERE queue = ?1 AND name = ?2 AND typeof(seq) = 'integer' AND seq >= 0
