-- Stores a new job in its place. Changes nothing where its id is there already.
-- ?1 queue, ?2 id, ?3 state (ready or scheduled), ?4 rank, ?5 pos, ?6 priority, ?7 envelope, ?8 digest of a given id
INSERT INTO queue_jobs (queue, id, state, rank, pos, priority, envelope, digest)
VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8) ON CONFLICT DO NOTHING
