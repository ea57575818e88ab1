-- The keys of jobs. The first key that is stored raises the schema number to 2.
CREATE TABLE IF NOT EXISTS queue_keyed (
    queue INTEGER NOT NULL,
    id BLOB NOT NULL,
    key BLOB NOT NULL,
    hold TEXT NOT NULL,
    first INTEGER NOT NULL,
    PRIMARY KEY (queue, id)
) WITHOUT ROWID;
CREATE TABLE IF NOT EXISTS queue_keys (
    queue INTEGER NOT NULL,
    key BLOB NOT NULL,
    id BLOB NOT NULL,
    until INTEGER,
    term INTEGER,
    next BLOB,
    PRIMARY KEY (queue, key)
) WITHOUT ROWID;
CREATE INDEX IF NOT EXISTS queue_keys_until ON queue_keys (queue, until) WHERE until IS NOT NULL;
