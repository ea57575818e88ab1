-- The stored data of a job that its holder ends. No row if the receipt is not valid.
-- ?1 queue, ?2 id, ?3 state active, ?4 lane, ?5 claim
SELECT digest, failures, note FROM queue_jobs WHERE queue = ?1 AND id = ?2 AND state = ?3 AND rank = ?4 AND pos = ?5
