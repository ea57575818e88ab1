-- Schedules. A library that does not know these tables leaves them alone, so that they raise no schema number.
CREATE TABLE IF NOT EXISTS queue_schedules (
    queue INTEGER NOT NULL,
    name TEXT NOT NULL,
    definition BLOB NOT NULL,
    state BLOB NOT NULL,
    due INTEGER,
    declared INTEGER NOT NULL DEFAULT 0,
    PRIMARY KEY (queue, name)
) WITHOUT ROWID;
CREATE INDEX IF NOT EXISTS queue_schedules_due ON queue_schedules (queue, due);
CREATE TABLE IF NOT EXISTS queue_ticked (
    queue INTEGER NOT NULL,
    id BLOB NOT NULL,
    schedule TEXT NOT NULL,
    run INTEGER NOT NULL,
    stop INTEGER NOT NULL DEFAULT 0,
    PRIMARY KEY (queue, id)
) WITHOUT ROWID;
CREATE TABLE IF NOT EXISTS queue_backfilled (
    queue INTEGER NOT NULL,
    id BLOB NOT NULL,
    at INTEGER NOT NULL,
    PRIMARY KEY (queue, id)
) WITHOUT ROWID;
CREATE INDEX IF NOT EXISTS queue_backfilled_at ON queue_backfilled (queue, at);
