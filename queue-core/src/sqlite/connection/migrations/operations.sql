-- Operations: what people do to all jobs that match, step by step.
CREATE TABLE IF NOT EXISTS queue_operations (
    queue INTEGER NOT NULL,
    id TEXT NOT NULL,
    stored BLOB NOT NULL,
    PRIMARY KEY (queue, id)
) WITHOUT ROWID;
