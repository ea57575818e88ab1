-- The lane of a turn: its row number, its last sequence, and the stored part of its answer.
-- ?1 queue, ?2 name
SELECT lane, seq, answer FROM queue_lanes WHERE queue = ?1 AND name = ?2 AND NOT fenced
