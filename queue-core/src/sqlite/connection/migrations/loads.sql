-- What workers use. A library that does not know this table leaves it alone, so that it raises no schema number.
CREATE TABLE IF NOT EXISTS queue_loads (
    queue INTEGER NOT NULL,
    process TEXT NOT NULL,
    load BLOB NOT NULL,
    PRIMARY KEY (queue, process)
) WITHOUT ROWID;
