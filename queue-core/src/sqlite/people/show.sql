-- One job: the columns that `record.rs` reads, then failures and result.
-- ?1 queue, ?2 id
SELECT id, state, envelope, priority, attempts, crashes, snoozes, pos, ended, note, rank, releases, released, failures, result FROM queue_jobs
WHERE queue = ?1 AND id = ?2
