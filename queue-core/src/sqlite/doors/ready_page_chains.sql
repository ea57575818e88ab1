-- Jobs with limits, chain by chain, as `people/record.rs` reads them.
-- ?1 queue, ?2 limit, ?3 offset, ?4 state
SELECT id, state, envelope, priority, attempts, crashes, snoozes, pos, ended, note, rank, releases, released, failures
FROM queue_jobs WHERE queue = ?1 AND state = ?4 ORDER BY rank, pos LIMIT ?2 OFFSET ?3
