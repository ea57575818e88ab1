CREATE TABLE IF NOT EXISTS queue_topics (
    topic INTEGER PRIMARY KEY,
    added INTEGER NOT NULL DEFAULT 0,
    size INTEGER NOT NULL DEFAULT 0,
    age INTEGER,
    most INTEGER,
    bytes INTEGER,
    lag INTEGER
);
CREATE TABLE IF NOT EXISTS queue_log (
    topic INTEGER NOT NULL,
    seq INTEGER NOT NULL,
    at INTEGER NOT NULL,
    id BLOB NOT NULL,
    grouped TEXT,
    digest INTEGER,
    envelope BLOB NOT NULL,
    PRIMARY KEY (topic, seq)
) WITHOUT ROWID;
CREATE TABLE IF NOT EXISTS queue_subscriptions (
    topic INTEGER NOT NULL,
    name TEXT NOT NULL,
    cursor INTEGER NOT NULL,
    lost INTEGER NOT NULL DEFAULT 0,
    made INTEGER NOT NULL,
    begin TEXT NOT NULL,
    types TEXT NOT NULL,
    unknown TEXT NOT NULL DEFAULT 'park',
    skipped INTEGER NOT NULL DEFAULT 0,
    rewind TEXT,
    upto INTEGER,
    PRIMARY KEY (topic, name)
) WITHOUT ROWID;
