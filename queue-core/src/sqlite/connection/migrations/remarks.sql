CREATE TABLE IF NOT EXISTS queue_remarks (
    queue INTEGER NOT NULL,
    id BLOB NOT NULL,
    progress BLOB,
    log BLOB,
    PRIMARY KEY (queue, id)
) WITHOUT ROWID;
