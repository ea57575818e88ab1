-- Aging. The first queue whose waiting jobs rise makes these tables, and raises the schema number to 4.
CREATE TABLE IF NOT EXISTS queue_aging (
    queue INTEGER PRIMARY KEY,
    stored BLOB NOT NULL
);
CREATE TABLE IF NOT EXISTS queue_rising (
    queue INTEGER NOT NULL,
    id BLOB NOT NULL,
    at INTEGER NOT NULL,
    place INTEGER NOT NULL,
    level INTEGER NOT NULL,
    PRIMARY KEY (queue, id)
) WITHOUT ROWID;
CREATE INDEX IF NOT EXISTS queue_rising_at ON queue_rising (queue, at, place);
