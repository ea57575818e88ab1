-- Failures by fingerprint. The first that is reported makes the table: a file without failures has none.
CREATE TABLE IF NOT EXISTS queue_failures (
    queue INTEGER NOT NULL,
    fingerprint TEXT NOT NULL,
    seen INTEGER NOT NULL,
    kind BLOB NOT NULL,
    PRIMARY KEY (queue, fingerprint)
) WITHOUT ROWID;
