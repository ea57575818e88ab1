-- Schema 1. The module `schema` says what the tables hold.
CREATE TABLE queue_queues (
    queue INTEGER PRIMARY KEY,
    name TEXT NOT NULL UNIQUE,
    paused INTEGER NOT NULL DEFAULT 0,
    claim INTEGER NOT NULL DEFAULT 0,
    registrations INTEGER NOT NULL DEFAULT 0,
    head INTEGER NOT NULL DEFAULT 0,
    tail INTEGER NOT NULL DEFAULT 0
);
CREATE TABLE queue_jobs (
    queue INTEGER NOT NULL,
    id BLOB NOT NULL,
    state INTEGER NOT NULL,
    rank INTEGER NOT NULL,
    pos INTEGER NOT NULL,
    priority INTEGER NOT NULL,
    envelope BLOB NOT NULL,
    digest INTEGER,
    attempts INTEGER NOT NULL DEFAULT 0,
    crashes INTEGER NOT NULL DEFAULT 0,
    first_crash INTEGER,
    snoozes INTEGER NOT NULL DEFAULT 0,
    failures BLOB,
    ended INTEGER,
    note TEXT,
    result BLOB,
    ran INTEGER,
    PRIMARY KEY (queue, id)
) WITHOUT ROWID;
CREATE INDEX queue_jobs_order ON queue_jobs (queue, state, rank, pos);
CREATE TABLE queue_parked (
    queue INTEGER NOT NULL,
    task TEXT NOT NULL,
    id BLOB NOT NULL,
    PRIMARY KEY (queue, task, id)
) WITHOUT ROWID;
CREATE TABLE queue_lanes (
    lane INTEGER PRIMARY KEY AUTOINCREMENT,
    queue INTEGER NOT NULL,
    name TEXT NOT NULL,
    process TEXT NOT NULL,
    seq INTEGER NOT NULL DEFAULT 0,
    deadline INTEGER NOT NULL,
    term INTEGER NOT NULL DEFAULT 4503599627370496,
    fenced INTEGER NOT NULL DEFAULT 0,
    answer BLOB,
    UNIQUE (queue, name)
);
CREATE TABLE queue_workers (
    queue INTEGER NOT NULL,
    process TEXT NOT NULL,
    record BLOB NOT NULL,
    PRIMARY KEY (queue, process)
) WITHOUT ROWID;
CREATE TABLE queue_gone (
    lane INTEGER NOT NULL,
    id BLOB NOT NULL,
    claim INTEGER NOT NULL,
    PRIMARY KEY (lane, id, claim)
) WITHOUT ROWID;
CREATE TABLE queue_producers (
    queue INTEGER NOT NULL,
    name TEXT NOT NULL,
    seq INTEGER NOT NULL DEFAULT 0,
    seen INTEGER NOT NULL,
    answers BLOB,
    PRIMARY KEY (queue, name)
) WITHOUT ROWID;
CREATE TABLE queue_remembered (
    queue INTEGER NOT NULL,
    id BLOB NOT NULL,
    digest INTEGER NOT NULL,
    ended INTEGER NOT NULL,
    PRIMARY KEY (queue, id)
) WITHOUT ROWID;
CREATE INDEX queue_remembered_ended ON queue_remembered (queue, ended);
CREATE TABLE queue_counters (
    queue INTEGER NOT NULL,
    name TEXT NOT NULL,
    value INTEGER NOT NULL,
    PRIMARY KEY (queue, name)
) WITHOUT ROWID;
