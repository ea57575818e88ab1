CREATE TABLE IF NOT EXISTS queue_watched (
    queue INTEGER NOT NULL,
    id BLOB NOT NULL,
    until INTEGER NOT NULL,
    PRIMARY KEY (queue, id)
) WITHOUT ROWID;
