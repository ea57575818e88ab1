-- The history of queues. A library that does not know these tables leaves them alone, so that they raise no schema number.
CREATE TABLE IF NOT EXISTS queue_history (
    queue INTEGER NOT NULL,
    task TEXT NOT NULL,
    unit TEXT NOT NULL,
    place INTEGER NOT NULL,
    period INTEGER NOT NULL,
    tally BLOB NOT NULL,
    PRIMARY KEY (queue, unit, task, place)
) WITHOUT ROWID;
CREATE TABLE IF NOT EXISTS queue_tasks (
    queue INTEGER NOT NULL,
    task TEXT NOT NULL,
    seen INTEGER NOT NULL,
    repeats INTEGER NOT NULL DEFAULT 0,
    PRIMARY KEY (queue, task)
) WITHOUT ROWID;
CREATE TABLE IF NOT EXISTS queue_deployed (
    queue INTEGER NOT NULL,
    release TEXT NOT NULL,
    at INTEGER NOT NULL,
    PRIMARY KEY (queue, release)
) WITHOUT ROWID;
CREATE TABLE IF NOT EXISTS queue_reporters (
    queue INTEGER NOT NULL,
    process TEXT NOT NULL,
    seq INTEGER NOT NULL,
    seen INTEGER NOT NULL,
    PRIMARY KEY (queue, process)
) WITHOUT ROWID;
