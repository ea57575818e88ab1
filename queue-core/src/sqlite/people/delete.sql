-- State and bytes of a job that may be removed.
-- ?1 queue, ?2 id, ?3 state active
SELECT state, length(envelope) + ifnull(length(result), 0) FROM queue_jobs WHERE queue = ?1 AND id = ?2 AND state <> ?3
