-- Which queues watchers follow, and the transitions that were told since. `until` when the mark of a watcher stands; 0: it stands no longer, and nothing is left of what was told.
-- `begun`: how many times a mark began to stand. `now`: the time, if the clock belongs to a test; NULL: it is that of the machine. A library that does not know these tables leaves them alone, and its changes are told all the same: by
-- triggers, which are made with the first mark.
CREATE TABLE IF NOT EXISTS queue_followed (
    queue INTEGER PRIMARY KEY,
    until INTEGER,
    last INTEGER DEFAULT 0,
    begun INTEGER DEFAULT 0,
    now INTEGER
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
