-- By a digest of its name and value, each tag of each job.
CREATE TABLE IF NOT EXISTS queue_tags (
    queue INTEGER NOT NULL,
    digest BLOB NOT NULL,
    id BLOB NOT NULL,
    PRIMARY KEY (queue, digest, id)
) WITHOUT ROWID;
CREATE INDEX IF NOT EXISTS queue_tags_of ON queue_tags (queue, id);
