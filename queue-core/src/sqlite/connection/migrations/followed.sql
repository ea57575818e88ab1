-- Who follows a queue, and the transitions that were told since. A library that does not know these tables leaves them alone, and its changes are told all the same: by
-- triggers, which are made with the first mark.
CREATE TABLE IF NOT EXISTS queue_followed (
    queue INTEGER PRIMARY KEY,
    until INTEGER,
    last INTEGER DEFAULT 0
);
CREATE TABLE IF NOT EXISTS queue_transitions (
    queue INTEGER NOT NULL,
    number INTEGER NOT NULL,
    at INTEGER,
    id BLOB,
    head BLOB,
    came_from INTEGER,
    came_to INTEGER,
    attempts INTEGER,
    note TEXT,
    PRIMARY KEY (queue, number)
) WITHOUT ROWID;
