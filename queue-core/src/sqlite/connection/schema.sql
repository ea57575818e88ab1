-- The tables. The module `schema` describes them. All of them are created when a file is opened for
-- the first time.
--
-- Numbers that grow are at most 2^53: SQLite converts a sum that overflows to a REAL, which no
-- column accepts.
--
-- `uses` has a bit for each feature that a job or queue of the file has ever used. The statements
-- of an unused feature are not executed.
CREATE TABLE queue_meta (
    name TEXT PRIMARY KEY,
    value INTEGER NOT NULL,
    uses INTEGER NOT NULL DEFAULT 0
) STRICT, WITHOUT ROWID;
CREATE TABLE queue_queues (
    queue INTEGER PRIMARY KEY,
    name TEXT NOT NULL UNIQUE,
    paused INTEGER NOT NULL DEFAULT 0 CHECK (paused BETWEEN 0 AND 3),
    claim INTEGER NOT NULL DEFAULT 0 CHECK (claim >= 0),
    registrations INTEGER NOT NULL DEFAULT 0 CHECK (registrations BETWEEN 0 AND 9007199254740992),
    head INTEGER NOT NULL DEFAULT 0,
    tail INTEGER NOT NULL DEFAULT 0
) STRICT;
CREATE TABLE queue_jobs (
    queue INTEGER NOT NULL,
    id BLOB NOT NULL CHECK (length(id) BETWEEN 1 AND 129),
    state INTEGER NOT NULL CHECK (state BETWEEN 0 AND 13),
    rank INTEGER NOT NULL,
    pos INTEGER NOT NULL,
    priority INTEGER NOT NULL CHECK (priority BETWEEN 0 AND 3),
    envelope BLOB NOT NULL,
    digest INTEGER,
    attempts INTEGER NOT NULL DEFAULT 0 CHECK (attempts BETWEEN 0 AND 4294967295),
    crashes INTEGER NOT NULL DEFAULT 0 CHECK (crashes BETWEEN 0 AND 4294967295),
    first_crash INTEGER,
    snoozes INTEGER NOT NULL DEFAULT 0 CHECK (snoozes BETWEEN 0 AND 9007199254740992),
    failures BLOB,
    ended INTEGER,
    note TEXT,
    result BLOB,
    ran INTEGER CHECK (ran >= 0),
    returns INTEGER NOT NULL DEFAULT 0 CHECK (returns BETWEEN 0 AND 4294967295),
    returned INTEGER,
    PRIMARY KEY (queue, id)
) STRICT, WITHOUT ROWID;
CREATE INDEX queue_jobs_order ON queue_jobs (queue, state, rank, pos);
CREATE TABLE queue_parked (
    queue INTEGER NOT NULL,
    task TEXT NOT NULL,
    id BLOB NOT NULL,
    PRIMARY KEY (queue, task, id)
) STRICT, WITHOUT ROWID;
CREATE TABLE queue_lanes (
    lane INTEGER PRIMARY KEY AUTOINCREMENT,
    queue INTEGER NOT NULL,
    name TEXT NOT NULL,
    process TEXT NOT NULL,
    seq INTEGER NOT NULL DEFAULT 0 CHECK (seq >= 0),
    deadline INTEGER NOT NULL,
    duration INTEGER NOT NULL DEFAULT 4503599627370496 CHECK (duration >= 0),
    fenced INTEGER NOT NULL DEFAULT 0 CHECK (fenced IN (0, 1)),
    answer BLOB,
    UNIQUE (queue, name)
) STRICT;
-- Lanes whose workers have stopped with running jobs. These jobs are not charged.
CREATE TABLE queue_leaving (lane INTEGER PRIMARY KEY) STRICT;
CREATE TABLE queue_workers (
    queue INTEGER NOT NULL,
    process TEXT NOT NULL,
    record BLOB NOT NULL,
    PRIMARY KEY (queue, process)
) STRICT, WITHOUT ROWID;
-- The resource usage of workers, and requests to them.
CREATE TABLE queue_loads (
    queue INTEGER NOT NULL,
    process TEXT NOT NULL,
    load BLOB NOT NULL,
    number INTEGER NOT NULL DEFAULT 0 CHECK (number >= 0),
    asked BLOB,
    PRIMARY KEY (queue, process)
) STRICT, WITHOUT ROWID;
CREATE TABLE queue_gone (
    lane INTEGER NOT NULL,
    id BLOB NOT NULL,
    claim INTEGER NOT NULL CHECK (claim >= 0),
    PRIMARY KEY (lane, id, claim)
) STRICT, WITHOUT ROWID;
CREATE TABLE queue_producers (
    queue INTEGER NOT NULL,
    name TEXT NOT NULL,
    seq INTEGER NOT NULL DEFAULT 0 CHECK (seq >= 0),
    seen INTEGER NOT NULL,
    answers BLOB,
    PRIMARY KEY (queue, name)
) STRICT, WITHOUT ROWID;
CREATE TABLE queue_remembered (
    queue INTEGER NOT NULL,
    id BLOB NOT NULL,
    digest INTEGER NOT NULL,
    ended INTEGER NOT NULL,
    PRIMARY KEY (queue, id)
) STRICT, WITHOUT ROWID;
CREATE INDEX queue_remembered_ended ON queue_remembered (queue, ended);
CREATE TABLE queue_counters (
    queue INTEGER NOT NULL,
    name TEXT NOT NULL,
    value INTEGER NOT NULL CHECK (value BETWEEN -9007199254740992 AND 9007199254740992),
    PRIMARY KEY (queue, name)
) STRICT, WITHOUT ROWID;
-- Positions at which a bounded search or cleanup continues, the sweeping worker, and the last
-- reports of outboxes.
CREATE TABLE queue_places (
    queue INTEGER NOT NULL,
    name TEXT NOT NULL,
    place BLOB NOT NULL,
    PRIMARY KEY (queue, name)
) STRICT, WITHOUT ROWID;

-- Keys of jobs.
CREATE TABLE queue_keyed (
    queue INTEGER NOT NULL,
    id BLOB NOT NULL,
    key BLOB NOT NULL,
    hold TEXT NOT NULL CHECK (hold IN ('ended', 'started', 'within')),
    first INTEGER NOT NULL,
    PRIMARY KEY (queue, id)
) STRICT, WITHOUT ROWID;
CREATE TABLE queue_keys (
    queue INTEGER NOT NULL,
    key BLOB NOT NULL,
    id BLOB NOT NULL,
    until INTEGER,
    duration INTEGER,
    next BLOB,
    PRIMARY KEY (queue, key)
) STRICT, WITHOUT ROWID;
CREATE INDEX queue_keys_until ON queue_keys (queue, until) WHERE until IS NOT NULL;

-- Groups.
CREATE TABLE queue_grouped (
    queue INTEGER NOT NULL,
    id BLOB NOT NULL,
    name BLOB NOT NULL,
    PRIMARY KEY (queue, id)
) STRICT, WITHOUT ROWID;
CREATE TABLE queue_groups (
    line INTEGER PRIMARY KEY,
    queue INTEGER NOT NULL,
    name BLOB NOT NULL,
    start INTEGER NOT NULL DEFAULT 0,
    eligible INTEGER NOT NULL DEFAULT 0 CHECK (eligible BETWEEN 0 AND 3),
    front BLOB,
    UNIQUE (queue, name)
) STRICT;
CREATE INDEX queue_groups_eligible ON queue_groups (queue, start, name) WHERE eligible & 1;
CREATE INDEX queue_groups_rested ON queue_groups (queue, start) WHERE eligible = 0 AND front IS NULL;
CREATE INDEX queue_groups_doubts ON queue_groups (queue, start, name) WHERE eligible & 2;
CREATE TABLE queue_holders (
    queue INTEGER NOT NULL,
    name BLOB NOT NULL,
    id BLOB NOT NULL,
    PRIMARY KEY (queue, name, id)
) STRICT, WITHOUT ROWID;
CREATE TABLE queue_rules (
    queue INTEGER NOT NULL,
    name BLOB NOT NULL,
    rule TEXT NOT NULL,
    PRIMARY KEY (queue, name)
) STRICT, WITHOUT ROWID;
CREATE TABLE queue_virtual_times (
    queue INTEGER PRIMARY KEY,
    virtual INTEGER NOT NULL DEFAULT 0,
    plain INTEGER NOT NULL DEFAULT 0
) STRICT;

-- Limits.
CREATE TABLE queue_limits (
    queue INTEGER NOT NULL,
    name BLOB NOT NULL,
    stored BLOB NOT NULL,
    PRIMARY KEY (queue, name)
) STRICT, WITHOUT ROWID;
CREATE TABLE queue_limited (
    queue INTEGER NOT NULL,
    id BLOB NOT NULL,
    keys BLOB NOT NULL,
    cost INTEGER NOT NULL CHECK (cost >= 0),
    PRIMARY KEY (queue, id)
) STRICT, WITHOUT ROWID;
CREATE TABLE queue_chains (
    chain INTEGER PRIMARY KEY,
    queue INTEGER NOT NULL,
    name BLOB NOT NULL,
    priority INTEGER NOT NULL CHECK (priority BETWEEN -1 AND 3),
    keys BLOB NOT NULL,
    ticket INTEGER NOT NULL,
    shut BLOB,
    start INTEGER NOT NULL DEFAULT 0,
    UNIQUE (queue, name, keys, priority)
) STRICT;
CREATE INDEX queue_chains_open ON queue_chains (queue, name, priority, ticket) WHERE shut IS NULL;
CREATE INDEX queue_chains_shut ON queue_chains (queue, shut, start, ticket) WHERE shut IS NOT NULL;
CREATE INDEX queue_chains_ranked ON queue_chains (queue, shut, name, priority, ticket) WHERE shut IS NOT NULL;
CREATE TABLE queue_slots (
    queue INTEGER NOT NULL,
    key BLOB NOT NULL,
    id BLOB NOT NULL,
    PRIMARY KEY (queue, key, id)
) STRICT, WITHOUT ROWID;
CREATE TABLE queue_rates (
    queue INTEGER NOT NULL,
    key BLOB NOT NULL,
    tat INTEGER NOT NULL,
    step REAL NOT NULL,
    closed INTEGER NOT NULL DEFAULT 0,
    PRIMARY KEY (queue, key)
) STRICT, WITHOUT ROWID;
CREATE INDEX queue_rates_tat ON queue_rates (queue, tat);
CREATE TABLE queue_wakes (
    queue INTEGER NOT NULL,
    key BLOB NOT NULL,
    at INTEGER NOT NULL,
    PRIMARY KEY (queue, key)
) STRICT, WITHOUT ROWID;
CREATE INDEX queue_wakes_at ON queue_wakes (queue, at);

-- Aging.
CREATE TABLE queue_aging (
    queue INTEGER PRIMARY KEY,
    stored BLOB NOT NULL
) STRICT;
CREATE TABLE queue_rising (
    queue INTEGER NOT NULL,
    id BLOB NOT NULL,
    at INTEGER NOT NULL,
    place INTEGER NOT NULL,
    level INTEGER NOT NULL,
    PRIMARY KEY (queue, id)
) STRICT, WITHOUT ROWID;
CREATE INDEX queue_rising_at ON queue_rising (queue, at, place);

-- Pauses.
CREATE TABLE queue_pauses (
    queue INTEGER NOT NULL,
    subject BLOB NOT NULL,
    until INTEGER,
    record TEXT NOT NULL,
    PRIMARY KEY (queue, subject)
) STRICT, WITHOUT ROWID;
CREATE INDEX queue_pauses_until ON queue_pauses (queue, until) WHERE until IS NOT NULL;

-- The history of queues, and failures by fingerprint.
CREATE TABLE queue_history (
    queue INTEGER NOT NULL,
    task TEXT NOT NULL,
    unit TEXT NOT NULL CHECK (unit IN ('m', 'h')),
    place INTEGER NOT NULL,
    period INTEGER NOT NULL,
    tally BLOB NOT NULL,
    PRIMARY KEY (queue, unit, task, place)
) STRICT, WITHOUT ROWID;
CREATE TABLE queue_tasks (
    queue INTEGER NOT NULL,
    task TEXT NOT NULL,
    seen INTEGER NOT NULL,
    repeats INTEGER NOT NULL DEFAULT 0 CHECK (repeats IN (0, 1)),
    PRIMARY KEY (queue, task)
) STRICT, WITHOUT ROWID;
CREATE TABLE queue_deployed (
    queue INTEGER NOT NULL,
    release TEXT NOT NULL,
    at INTEGER NOT NULL,
    PRIMARY KEY (queue, release)
) STRICT, WITHOUT ROWID;
CREATE TABLE queue_reporters (
    queue INTEGER NOT NULL,
    process TEXT NOT NULL,
    seq INTEGER NOT NULL,
    seen INTEGER NOT NULL,
    PRIMARY KEY (queue, process)
) STRICT, WITHOUT ROWID;
CREATE TABLE queue_failures (
    queue INTEGER NOT NULL,
    fingerprint TEXT NOT NULL,
    seen INTEGER NOT NULL,
    record BLOB NOT NULL,
    PRIMARY KEY (queue, fingerprint)
) STRICT, WITHOUT ROWID;

-- Schedules.
CREATE TABLE queue_schedules (
    queue INTEGER NOT NULL,
    name TEXT NOT NULL,
    definition BLOB NOT NULL,
    state BLOB NOT NULL,
    due INTEGER,
    declared INTEGER NOT NULL DEFAULT 0 CHECK (declared IN (0, 1)),
    PRIMARY KEY (queue, name)
) STRICT, WITHOUT ROWID;
CREATE INDEX queue_schedules_due ON queue_schedules (queue, due);
CREATE TABLE queue_ticked (
    queue INTEGER NOT NULL,
    id BLOB NOT NULL,
    schedule TEXT NOT NULL,
    run INTEGER NOT NULL,
    stop INTEGER NOT NULL DEFAULT 0 CHECK (stop IN (0, 1)),
    PRIMARY KEY (queue, id)
) STRICT, WITHOUT ROWID;
CREATE TABLE queue_backfilled (
    queue INTEGER NOT NULL,
    id BLOB NOT NULL,
    at INTEGER NOT NULL,
    PRIMARY KEY (queue, id)
) STRICT, WITHOUT ROWID;
CREATE INDEX queue_backfilled_at ON queue_backfilled (queue, at);

-- Watched jobs, followed queues and their transitions, progress and logs, tags, and operations.
CREATE TABLE queue_watched (
    queue INTEGER NOT NULL,
    id BLOB NOT NULL,
    until INTEGER NOT NULL,
    PRIMARY KEY (queue, id)
) STRICT, WITHOUT ROWID;
-- Queues that watchers follow. `until`: when the mark of a watcher expires; 0: it has expired, and
-- its transitions are removed. `begun`: how many times a mark was set after it had expired. `now`:
-- the time, if a test controls the clock; NULL: the clock of the machine counts. The triggers of
-- `transitions.sql` write the transitions. They are created with the first mark.
CREATE TABLE queue_followed (
    queue INTEGER PRIMARY KEY,
    until INTEGER NOT NULL,
    last INTEGER NOT NULL DEFAULT 0 CHECK (last BETWEEN 0 AND 9007199254740992),
    begun INTEGER NOT NULL DEFAULT 0,
    now INTEGER
) STRICT;
CREATE TABLE queue_transitions (
    queue INTEGER NOT NULL,
    number INTEGER NOT NULL,
    at INTEGER NOT NULL,
    id BLOB NOT NULL,
    head BLOB NOT NULL,
    from_state INTEGER,
    to_state INTEGER,
    attempts INTEGER NOT NULL,
    note BLOB,
    PRIMARY KEY (queue, number)
) STRICT, WITHOUT ROWID;
CREATE TABLE queue_progress (
    queue INTEGER NOT NULL,
    id BLOB NOT NULL,
    progress BLOB,
    log BLOB,
    PRIMARY KEY (queue, id)
) STRICT, WITHOUT ROWID;
-- Each tag of each job, by a digest of the tag's name and value.
CREATE TABLE queue_tags (
    queue INTEGER NOT NULL,
    digest BLOB NOT NULL,
    id BLOB NOT NULL,
    PRIMARY KEY (queue, digest, id)
) STRICT, WITHOUT ROWID;
CREATE INDEX queue_tags_of ON queue_tags (queue, id);
CREATE TABLE queue_operations (
    queue INTEGER NOT NULL,
    id TEXT NOT NULL,
    stored BLOB NOT NULL,
    PRIMARY KEY (queue, id)
) STRICT, WITHOUT ROWID;

-- Topics.
CREATE TABLE queue_topics (
    topic INTEGER PRIMARY KEY,
    added INTEGER NOT NULL DEFAULT 0 CHECK (added BETWEEN 0 AND 9007199254740992),
    size INTEGER NOT NULL DEFAULT 0 CHECK (size BETWEEN 0 AND 9007199254740992),
    age INTEGER,
    most INTEGER,
    bytes INTEGER,
    lag INTEGER
) STRICT;
CREATE TABLE queue_log (
    topic INTEGER NOT NULL,
    seq INTEGER NOT NULL,
    at INTEGER NOT NULL,
    id BLOB NOT NULL,
    grouped TEXT,
    digest INTEGER,
    envelope BLOB NOT NULL,
    PRIMARY KEY (topic, seq)
) STRICT, WITHOUT ROWID;
CREATE TABLE queue_subscriptions (
    topic INTEGER NOT NULL,
    name TEXT NOT NULL,
    cursor INTEGER NOT NULL CHECK (cursor >= 0),
    lost INTEGER NOT NULL DEFAULT 0 CHECK (lost BETWEEN 0 AND 9007199254740992),
    made INTEGER NOT NULL,
    begin TEXT NOT NULL,
    types TEXT NOT NULL,
    unknown TEXT NOT NULL DEFAULT 'park',
    skipped INTEGER NOT NULL DEFAULT 0 CHECK (skipped BETWEEN 0 AND 9007199254740992),
    rewind TEXT,
    upto INTEGER,
    PRIMARY KEY (topic, name)
) STRICT, WITHOUT ROWID;
