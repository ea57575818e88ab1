-- Stores what was told of a job.
-- ?1 queue, ?2 id, ?3 progress, ?4 log
INSERT OR REPLACE INTO queue_remarks (queue, id, progress, log) VALUES (?1, ?2, ?3, ?4)
