-- Groups. The first job or rule of a group makes these tables, and raises the schema number to 3.
CREATE TABLE IF NOT EXISTS queue_grouped (
    queue INTEGER NOT NULL,
    id BLOB NOT NULL,
    name BLOB NOT NULL,
    PRIMARY KEY (queue, id)
) WITHOUT ROWID;
CREATE TABLE IF NOT EXISTS queue_groups (
    line INTEGER PRIMARY KEY,
    queue INTEGER NOT NULL,
    name BLOB NOT NULL,
    start INTEGER NOT NULL DEFAULT 0,
    turn INTEGER NOT NULL DEFAULT 0,
    front BLOB,
    UNIQUE (queue, name)
);
DROP INDEX IF EXISTS queue_groups_turn;
CREATE INDEX IF NOT EXISTS queue_groups_turns ON queue_groups (queue, start, name) WHERE turn & 1;
CREATE INDEX IF NOT EXISTS queue_groups_rested ON queue_groups (queue, start) WHERE turn = 0 AND front IS NULL;
CREATE INDEX IF NOT EXISTS queue_groups_doubts ON queue_groups (queue, start, name) WHERE turn & 2;
CREATE TABLE IF NOT EXISTS queue_holders (
    queue INTEGER NOT NULL,
    name BLOB NOT NULL,
    id BLOB NOT NULL,
    PRIMARY KEY (queue, name, id)
) WITHOUT ROWID;
CREATE TABLE IF NOT EXISTS queue_rules (
    queue INTEGER NOT NULL,
    name BLOB NOT NULL,
    rule TEXT NOT NULL,
    PRIMARY KEY (queue, name)
) WITHOUT ROWID;
CREATE TABLE IF NOT EXISTS queue_turns (
    queue INTEGER PRIMARY KEY,
    virtual INTEGER NOT NULL DEFAULT 0,
    plain INTEGER NOT NULL DEFAULT 0
);
