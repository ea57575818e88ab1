-- The outbox of queue-core, version 1, for PostgreSQL 13 and newer.

-- The identity of this database, and the oldest library that may write to the outbox. One row,
-- which every INSERT reads.
CREATE TABLE {schema}.queue_database (
    one BOOL PRIMARY KEY DEFAULT TRUE CHECK (one),
    version INT NOT NULL,
    id BYTEA NOT NULL DEFAULT decode(replace(gen_random_uuid()::text, '-', ''), 'hex'),
    -- Queues with more or older rows than the relay allows.
    full_queues TEXT[] NOT NULL DEFAULT '{}'
);
INSERT INTO {schema}.queue_database (version) VALUES (1);

-- Jobs that are committed and not sent to the broker yet. `seq` is the order to send in, and never
-- a cursor: rows may become visible late.
CREATE TABLE {schema}.queue_outbox (
    seq BIGINT GENERATED ALWAYS AS IDENTITY,
    id BYTEA NOT NULL,
    queue TEXT NOT NULL,
    group_digest BYTEA,
    body BYTEA NOT NULL,
    created_at TIMESTAMPTZ NOT NULL DEFAULT clock_timestamp(),
    -- Refused for now: not sent before this time, and no later row of its group either.
    retry_at TIMESTAMPTZ,
    -- Refused for good: the reason.
    refused TEXT,
    PRIMARY KEY (queue, seq, id)
);
CREATE INDEX queue_outbox_waiting ON {schema}.queue_outbox (queue, group_digest, seq) WHERE retry_at IS NOT NULL;
CREATE INDEX queue_outbox_refused ON {schema}.queue_outbox (queue) WHERE refused IS NOT NULL;

-- One row for each queue: who sends, and the request in flight, which is stored before it is sent.
CREATE TABLE {schema}.queue_relay (
    queue TEXT PRIMARY KEY,
    holder BYTEA,
    until TIMESTAMPTZ,
    broker TEXT,
    producer TEXT,
    number BIGINT NOT NULL DEFAULT 0,
    seqs BIGINT[],
    digest BYTEA,
    -- Rows up to this number may have been sent before the database lost its latest commits.
    suspect BIGINT
);

-- Completion: which jobs have committed their effects, and how they ended. The key begins with the
-- time of enqueue.
CREATE TABLE {schema}.queue_effects (
    job BYTEA NOT NULL,
    part TEXT NOT NULL DEFAULT '',
    ending BYTEA NOT NULL,
    at TIMESTAMPTZ NOT NULL DEFAULT clock_timestamp(),
    PRIMARY KEY (job, part)
);
