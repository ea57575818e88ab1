-- The last jobs with limits, from the last one back, as `people/record.rs` reads them.
-- ?1 queue, ?2 limit, ?3 state
SELECT id, state, envelope, priority, attempts, crashes, snoozes, pos, ended, note, rank, releases, released, failures
FROM queue_jobs WHERE queue = ?1 AND state = ?3 ORDER BY rank DESC, pos DESC LIMIT ?2
