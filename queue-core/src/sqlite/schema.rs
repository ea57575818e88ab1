//! The tables, and opening a file that may hold them already.
//!
//! | table | holds |
//! |---|---|
//! | `queue_meta` | the schema number |
//! | `queue_queues` | a row per queue: pause flag, the counters of claims and registrations, both ends of `ready` |
//! | `queue_jobs` | a row per job, whatever its state |
//! | `queue_parked` | the parked jobs by task |
//! | `queue_workers` | a row per lane: sequence, last answer, deadline |
//! | `queue_gone` | jobs that were cancelled under a lane |
//! | `queue_producers` | a row per producer: sequence, last answers |
//! | `queue_tombstones` | digests of given ids whose jobs are done |
//! | `queue_counters` | what happened since the queue exists |
//!
//! `queue_jobs` is read through one index, `(queue, state, rank, pos)`, whose last two columns mean what the state needs:
//!
//! | state | number | rank | pos |
//! |---|---|---|---|
//! | `ready` | 0 | priority | place in the line |
//! | `ready`, a suspect | 1 | 0 | place in the line |
//! | `scheduled`, `retry` | 2, 3 | 0 | when it is due |
//! | `active` | 4 | the lane's row in `queue_workers` | the claim number: together the tag |
//! | `parked` | 5 | 0 | when it was parked |
//! | `done`, `cancelled`, `expired` | 6, 8, 9 | 0 | until when it is kept |
//! | `dead` | 7 | 0 | when it died |

use std::{fs, path::Path, time::Duration};

use rusqlite::{Connection, ErrorCode, OpenFlags};

use crate::error::{Error, Result};

/// The schema that this library writes.
const SCHEMA: u64 = 1;

/// How long a statement waits for another process's transaction.
const BUSY: Duration = Duration::from_secs(4);

const CREATE: &str = "
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
    PRIMARY KEY (queue, id)
) WITHOUT ROWID;
CREATE INDEX queue_jobs_order ON queue_jobs (queue, state, rank, pos);
CREATE TABLE queue_parked (
    queue INTEGER NOT NULL,
    task TEXT NOT NULL,
    id BLOB NOT NULL,
    PRIMARY KEY (queue, task, id)
) WITHOUT ROWID;
CREATE TABLE queue_workers (
    worker INTEGER PRIMARY KEY AUTOINCREMENT,
    queue INTEGER NOT NULL,
    name TEXT NOT NULL,
    process TEXT NOT NULL,
    seq INTEGER NOT NULL DEFAULT 0,
    deadline INTEGER NOT NULL,
    fenced INTEGER NOT NULL DEFAULT 0,
    answer BLOB,
    UNIQUE (queue, name)
);
CREATE TABLE queue_gone (
    worker INTEGER NOT NULL,
    id BLOB NOT NULL,
    claim INTEGER NOT NULL,
    PRIMARY KEY (worker, id, claim)
) WITHOUT ROWID;
CREATE TABLE queue_producers (
    queue INTEGER NOT NULL,
    name TEXT NOT NULL,
    seq INTEGER NOT NULL DEFAULT 0,
    seen INTEGER NOT NULL,
    answers BLOB,
    PRIMARY KEY (queue, name)
) WITHOUT ROWID;
CREATE TABLE queue_tombstones (
    queue INTEGER NOT NULL,
    id BLOB NOT NULL,
    digest INTEGER NOT NULL,
    ended INTEGER NOT NULL,
    PRIMARY KEY (queue, id)
) WITHOUT ROWID;
CREATE INDEX queue_tombstones_ended ON queue_tombstones (queue, ended);
CREATE TABLE queue_counters (
    queue INTEGER NOT NULL,
    name TEXT NOT NULL,
    value INTEGER NOT NULL,
    PRIMARY KEY (queue, name)
) WITHOUT ROWID;
";

/// Opens the file for writing, makes it and its tables where they are missing, and refuses what it should not touch.
pub(super) fn open_writer(path: Option<&Path>) -> Result<Connection> {
    let shown = path.map_or_else(|| ":memory:".to_owned(), |path| path.display().to_string());
    let connection = match path {
        Some(path) => {
            check_path(path)?;
            Connection::open(path)
        }
        None => Connection::open_in_memory(),
    };
    let connection = connection.map_err(|error| refused(&shown, &error))?;
    prepare(&connection, &shown).map_err(|error| match error {
        Refusal::Ours(error) => error,
        Refusal::Sqlite(error) => refused(&shown, &error),
    })?;
    Ok(connection)
}

/// Opens the file for reading beside the writer.
pub(super) fn open_reader(path: &Path) -> Result<Connection> {
    let flags = OpenFlags::SQLITE_OPEN_READ_WRITE | OpenFlags::SQLITE_OPEN_NO_MUTEX;
    let shown = path.display().to_string();
    let connection = Connection::open_with_flags(path, flags).map_err(|error| refused(&shown, &error))?;
    connection.busy_timeout(BUSY).map_err(|error| refused(&shown, &error))?;
    connection.pragma_update(None, "query_only", true).map_err(|error| refused(&shown, &error))?;
    Ok(connection)
}

enum Refusal {
    Ours(Error),
    Sqlite(rusqlite::Error),
}

impl From<rusqlite::Error> for Refusal {
    fn from(error: rusqlite::Error) -> Self {
        Refusal::Sqlite(error)
    }
}

fn prepare(connection: &Connection, shown: &str) -> Result<(), Refusal> {
    connection.busy_timeout(BUSY)?;
    if connection.is_readonly("main")? {
        return Err(Refusal::Ours(Error::Config(format!(
            "the database {shown} is read-only for this user; change its permissions, or name another file"
        ))));
    }
    connection.pragma_update(None, "journal_mode", "wal")?;
    connection.pragma_update(None, "synchronous", "full")?;
    connection.pragma_update(None, "fullfsync", true)?;
    connection.pragma_update(None, "checkpoint_fullfsync", true)?;
    connection.pragma_update(None, "cache_size", -16_000)?;
    connection.pragma_update(None, "journal_size_limit", 16 * 1024 * 1024)?;
    connection.pragma_update(None, "wal_autocheckpoint", 2000)?;
    connection.set_prepared_statement_cache_capacity(128);
    // One process makes the tables; the others wait here for it.
    connection.execute_batch("BEGIN IMMEDIATE")?;
    let made = make(connection, shown);
    connection.execute_batch(if made.is_ok() { "COMMIT" } else { "ROLLBACK" })?;
    made
}

fn make(connection: &Connection, shown: &str) -> Result<(), Refusal> {
    connection.execute_batch("CREATE TABLE IF NOT EXISTS queue_meta (name TEXT PRIMARY KEY, value INTEGER NOT NULL) WITHOUT ROWID")?;
    let found = connection.query_row("SELECT value FROM queue_meta WHERE name = 'schema'", [], |row| row.get::<_, u64>(0));
    match found {
        Ok(found) if found > SCHEMA => Err(Refusal::Ours(Error::SchemaTooNew { queue: shown.to_owned(), found, known: SCHEMA })),
        Ok(_) => Ok(()),
        Err(rusqlite::Error::QueryReturnedNoRows) => {
            connection.execute_batch(CREATE)?;
            connection.execute("INSERT INTO queue_meta (name, value) VALUES ('schema', ?1)", [SCHEMA])?;
            Ok(())
        }
        Err(error) => Err(error.into()),
    }
}

/// Says what SQLite would only call "unable to open", and makes a new file private to its user.
fn check_path(path: &Path) -> Result<()> {
    let invalid = |problem: &str| Err(Error::invalid("SQLite path", path.to_string_lossy(), problem));
    if path.is_dir() {
        return invalid("is a folder; name a file in it");
    }
    if path.exists() {
        return Ok(());
    }
    match path.parent() {
        Some(parent) if !parent.as_os_str().is_empty() && !parent.is_dir() => {
            return invalid("is in a folder that does not exist; create it first");
        }
        _ => {}
    }
    let mut options = fs::OpenOptions::new();
    options.write(true).create_new(true);
    #[cfg(unix)]
    std::os::unix::fs::OpenOptionsExt::mode(&mut options, 0o600);
    match options.open(path) {
        Ok(_) => Ok(()),
        Err(error) if error.kind() == std::io::ErrorKind::AlreadyExists => Ok(()),
        Err(error) => invalid(&format!("cannot be created: {error}")),
    }
}

fn refused(shown: &str, error: &rusqlite::Error) -> Error {
    match error.sqlite_error_code() {
        Some(ErrorCode::NotADatabase) => Error::Config(format!("{shown} is not a SQLite database; name another file")),
        Some(ErrorCode::ReadOnly) => {
            Error::Config(format!("the database {shown} or its folder is read-only; change its permissions, or name another file"))
        }
        Some(ErrorCode::CannotOpen | ErrorCode::PermissionDenied) => {
            Error::Config(format!("cannot open the database {shown}: {error}; check the permissions of the file and its folder"))
        }
        Some(ErrorCode::DatabaseBusy | ErrorCode::DatabaseLocked) => {
            Error::Unavailable { broker: shown.to_owned(), problem: "another process has held its lock for 4 s".to_owned() }
        }
        Some(ErrorCode::DiskFull) => Error::BrokerFull { broker: shown.to_owned(), problem: "the disk is full".to_owned() },
        _ => Error::Unavailable { broker: shown.to_owned(), problem: error.to_string() },
    }
}
