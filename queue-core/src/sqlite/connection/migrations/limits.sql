-- Limits: made with the tables of groups. The first job with limits raises the schema number to 4.
CREATE TABLE IF NOT EXISTS queue_limits (
    queue INTEGER NOT NULL,
    name BLOB NOT NULL,
    stored BLOB NOT NULL,
    PRIMARY KEY (queue, name)
) WITHOUT ROWID;
CREATE TABLE IF NOT EXISTS queue_limited (
    queue INTEGER NOT NULL,
    id BLOB NOT NULL,
    keys BLOB NOT NULL,
    cost INTEGER NOT NULL,
    PRIMARY KEY (queue, id)
) WITHOUT ROWID;
CREATE TABLE IF NOT EXISTS queue_chains (
    chain INTEGER PRIMARY KEY,
    queue INTEGER NOT NULL,
    name BLOB NOT NULL,
    priority INTEGER NOT NULL,
    keys BLOB NOT NULL,
    ticket INTEGER NOT NULL,
    shut BLOB,
    start INTEGER NOT NULL DEFAULT 0,
    UNIQUE (queue, name, keys, priority)
);
CREATE INDEX IF NOT EXISTS queue_chains_open ON queue_chains (queue, name, priority, ticket) WHERE shut IS NULL;
CREATE INDEX IF NOT EXISTS queue_chains_shut ON queue_chains (queue, shut, start, ticket) WHERE shut IS NOT NULL;
CREATE INDEX IF NOT EXISTS queue_chains_ranked ON queue_chains (queue, shut, name, priority, ticket) WHERE shut IS NOT NULL;
CREATE TABLE IF NOT EXISTS queue_slots (
    queue INTEGER NOT NULL,
    key BLOB NOT NULL,
    id BLOB NOT NULL,
    PRIMARY KEY (queue, key, id)
) WITHOUT ROWID;
CREATE TABLE IF NOT EXISTS queue_rates (
    queue INTEGER NOT NULL,
    key BLOB NOT NULL,
    tat INTEGER NOT NULL,
    step REAL NOT NULL,
    closed INTEGER NOT NULL DEFAULT 0,
    PRIMARY KEY (queue, key)
) WITHOUT ROWID;
CREATE INDEX IF NOT EXISTS queue_rates_tat ON queue_rates (queue, tat);
CREATE TABLE IF NOT EXISTS queue_wakes (
    queue INTEGER NOT NULL,
    key BLOB NOT NULL,
    at INTEGER NOT NULL,
    PRIMARY KEY (queue, key)
) WITHOUT ROWID;
CREATE INDEX IF NOT EXISTS queue_wakes_at ON queue_wakes (queue, at);
