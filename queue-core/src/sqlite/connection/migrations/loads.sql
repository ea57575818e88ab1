-- What workers use, and what they were asked. A library that does not know this table leaves it alone, so that it raises no schema number.
CREATE TABLE IF NOT EXISTS queue_loads (
    queue INTEGER NOT NULL,
    process TEXT NOT NULL,
    load BLOB NOT NULL,
    number INTEGER NOT NULL DEFAULT 0,
    asked BLOB,
    PRIMARY KEY (queue, process)
) WITHOUT ROWID;

-- Lanes whose workers have stopped and left jobs behind, which are not charged.
CREATE TABLE IF NOT EXISTS queue_leaving (lane INTEGER PRIMARY KEY);
