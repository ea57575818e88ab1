-- Chains without a job that is ready.
-- ?1 queue, ?2 state (ready, with limits), ?3 limit
SELECT chain, name FROM queue_chains AS chains WHERE queue = ?1
AND NOT EXISTS (SELECT 1 FROM queue_jobs WHERE queue_jobs.queue = ?1 AND state = ?2 AND rank = chains.chain) LIMIT ?3
