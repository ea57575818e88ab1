-- Makes a lane that is lost anew, as one that was fenced.
-- ?1 lane, ?2 queue
INSERT OR IGNORE INTO queue_lanes (lane, queue, name, process, deadline, fenced)
VALUES (?1, ?2, 'lost.' || ?1, 'lost', 0, 1)
