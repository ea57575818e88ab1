-- Removes an active job without a record. Removes no row if the receipt is not valid.
-- ?1 queue, ?2 id, ?3 state active, ?4 lane, ?5 claim
DELETE FROM queue_jobs WHERE queue = ?1 AND id = ?2 AND state = ?3 AND rank = ?4 AND pos = ?5
