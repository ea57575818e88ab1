-- Lets a lane hear that a job was cancelled under it.
-- ?1 lane, ?2 id, ?3 claim
INSERT OR IGNORE INTO queue_gone (lane, id, claim) VALUES (?1, ?2, ?3)
