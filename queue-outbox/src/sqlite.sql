-- The outbox of queue-core, version 1, for SQLite 3.35 and newer. Times are milliseconds since 1970.

-- The identity of this database, and the oldest library that may write to the outbox. One row,
-- which every INSERT reads.
CREATE TABLE main.queue_database (
    one INTEGER PRIMARY KEY DEFAULT 1 CHECK (one = 1),
    version INTEGER NOT NULL,
    id BLOB NOT NULL DEFAULT (randomblob(16)),
    -- Queues with more or older rows than the relay allows, each between commas.
    full_queues TEXT NOT NULL DEFAULT ','
);
INSERT INTO main.queue_database (version) VALUES (1);

-- Jobs that are committed and not sent to the broker yet, in the order of `seq`. AUTOINCREMENT: no
-- number comes back.
CREATE TABLE main.queue_outbox (
    seq INTEGER PRIMARY KEY AUTOINCREMENT,
    id BLOB NOT NULL,
    queue TEXT NOT NULL,
    group_digest BLOB,
    body BLOB NOT NULL,
    created_at INTEGER NOT NULL DEFAULT (CAST((julianday('now') - 2440587.5) * 86400000 AS INTEGER)),
    -- Refused for now: not sent before this time, and no later row of its group either.
    retry_at INTEGER,
    -- Refused for good: the reason.
    refused TEXT
);
CREATE INDEX main.queue_outbox_queue ON queue_outbox (queue, seq);
CREATE INDEX main.queue_outbox_waiting ON queue_outbox (queue, group_digest, seq) WHERE retry_at IS NOT NULL;
CREATE INDEX main.queue_outbox_refused ON queue_outbox (queue) WHERE refused IS NOT NULL;

-- One row for each queue: who sends, and the request in flight, which is stored before it is sent.
CREATE TABLE main.queue_relay (
    queue TEXT PRIMARY KEY,
    holder BLOB,
    until INTEGER,
    broker TEXT,
    producer TEXT,
    number INTEGER NOT NULL DEFAULT 0,
    seqs TEXT,
    digest BLOB,
    -- Rows up to this number may have been sent before the database lost its latest commits.
    suspect INTEGER
);

-- Completion: which jobs have committed their effects, and how they ended. The key begins with the
-- time of enqueue.
CREATE TABLE main.queue_effects (
    job BLOB NOT NULL,
    part TEXT NOT NULL DEFAULT '',
    ending BLOB NOT NULL,
    at INTEGER NOT NULL DEFAULT (CAST((julianday('now') - 2440587.5) * 86400000 AS INTEGER)),
    PRIMARY KEY (job, part)
) WITHOUT ROWID;
