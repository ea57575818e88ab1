-- Pauses. The first one with an end raises the schema number to 6.
CREATE TABLE IF NOT EXISTS queue_pauses (
    queue INTEGER NOT NULL,
    what BLOB NOT NULL,
    until INTEGER,
    said TEXT NOT NULL,
    PRIMARY KEY (queue, what)
) WITHOUT ROWID;
CREATE INDEX IF NOT EXISTS queue_pauses_until ON queue_pauses (queue, until) WHERE until IS NOT NULL;
