//! The tables, and opening a file that may hold them already.
//!
//! | table | holds |
//! |---|---|
//! | `queue_meta` | the schema number, and the features that were ever used in the file |
//! | `queue_queues` | a row per queue: pause flag, the counters of claims and registrations, both ends of `ready` |
//! | `queue_jobs` | a row per job in any state |
//! | `queue_parked` | the parked jobs by task |
//! | `queue_lanes` | a row per lane: sequence, last answer, deadline |
//! | `queue_workers` | a row per worker with a lane: its record |
//! | `queue_loads` | a row per worker with a lane: its resource usage, and the last request to it |
//! | `queue_leaving` | a row per lane whose worker has stopped with running jobs |
//! | `queue_gone` | jobs that were cancelled under a lane |
//! | `queue_producers` | a row per producer: sequence, last answers |
//! | `queue_keyed` | a row per job that was enqueued with a unique key: the key, and its hold |
//! | `queue_keys` | a row per key that a job holds: its holder, its hold time, and the job that waits for it |
//! | `queue_grouped`, `queue_groups` | a row per job with a group; a row per group that has or had a line |
//! | `queue_holders` | a row per active job with a group |
//! | `queue_rules`, `queue_virtual_times` | rules of groups; a row per queue with groups: its virtual time |
//! | `queue_limits` | a row per limit: the declared and the set values |
//! | `queue_limited`, `queue_chains` | a row per job with limits; a row per chain of such jobs that are ready |
//! | `queue_slots`, `queue_rates`, `queue_wakes` | limit keys: their slots, their rates, and when they have room |
//! | `queue_aging`, `queue_rising` | a row per queue with aging; a row per job that may rise, while it is ready and perhaps for longer |
//! | `queue_remembered` | digests of chosen ids whose jobs are done |
//! | `queue_counters` | counters of events since the queue was created |
//! | `queue_places` | where bounded searches and cleanups of a queue continue, the sweeping worker, and the last reports of outboxes |
//! | `queue_history` | a row per task and per minute or hour of a ring: its tally |
//! | `queue_tasks` | a row per task with a history: the hour of its last report |
//! | `queue_deployed` | a row per release of workers: when it was first seen |
//! | `queue_reporters` | a row per worker: number and hour of its last report |
//! | `queue_failures` | a row per failure pattern: its record |
//! | `queue_schedules` | a row per schedule: its definition and state, and when it is due |
//! | `queue_ticked` | jobs of schedules that have not ended |
//! | `queue_watched` | jobs for whose end a caller waits, and the end of the wait |
//! | `queue_followed`, `queue_transitions` | queues that a watcher follows or has followed, and the last transitions of their jobs |
//! | `queue_progress` | progress and log lines that handlers have reported |
//! | `queue_tags` | a row per tag of a job, by a digest of its name and value |
//! | `queue_pauses` | the operator, time, reason and end of each pause of a queue or a task; the ends of pauses of groups |
//! | `queue_operations` | operations on all matching jobs: the running one, and the last that have ended |
//! | `queue_topics`, `queue_log` | a row per topic: the number of added entries, and its retention; a row per entry of its log |
//! | `queue_subscriptions` | a row per subscription: its cursor |
//! | `queue_backfilled` | ids of jobs that a backfill or an operator created, for a day |
//!
//! `queue_jobs` is read through one index, `(queue, state, rank, pos)`. The meaning of its last two
//! columns depends on the state:
//!
//! | state | number | rank | pos |
//! |---|---|---|---|
//! | `ready` | 0 | priority | place in the line |
//! | `ready`, a suspect | 1 | 0 | place in the line |
//! | `scheduled`, `retry` | 2, 3 | 0 | when it is due |
//! | `active` | 4 | the lane's row in `queue_lanes` | the claim number: together the receipt |
//! | `parked` | 5 | 0 | when it is buried because releases could not read it; otherwise 2^52 |
//! | `done`, `cancelled`, `expired` | 6, 8, 9 | 0 | the end of its retention |
//! | `dead` | 7 | 0 | when it died |
//! | `held` | 10 | 0 | when it is due, once its key is free |
//! | `ready`, of a group | 11 | the line of its group | 56 bits of a number, and above them one more than the priority, or 0 for the job that blocks the line |
//! | the same, a suspect | 12 | the line of its group | the number |
//! | `ready`, with limits | 13 | its chain | the number |

use std::{
    cmp::Ordering,
    fs,
    io::ErrorKind,
    path::{Path, PathBuf},
    sync::{Mutex, PoisonError},
    thread,
    time::{Duration, Instant},
};

use rusqlite::{Connection, ErrorCode, MAIN_DB, OpenFlags, OptionalExtension, backup::Backup, config::DbConfig};

use super::{busy, file::logs_of, linked, triggers, unsigned::Unsigned};
use crate::{
    clock::Clock,
    error::{Error, Result},
};

/// All tables of a new file.
const TABLES: &str = include_str!("schema.sql");

/// The schema that this library reads and writes. Earlier ones are older than the first release.
const SCHEMA: u64 = 9;

/// A feature that jobs or queues may use. A file that has never used it skips the statements for
/// it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Feature {
    Keys = 1,
    Groups = 2,
    Limits = 4,
    Aging = 8,
}

/// The length at which the write-ahead log is merged into the file. The content of the log has to
/// fit into the ballast.
pub(crate) const CHECKPOINT_PAGES: u32 = 1000;

/// The name of a database in messages.
pub(crate) fn display_path(path: Option<&Path>) -> String {
    path.map_or_else(|| ":memory:".to_owned(), |path| path.display().to_string())
}

/// Opens a file that [`make_file`] has created, or that existed, for writing. Creates missing
/// tables, and rejects an unsuitable file. Without a path it opens a database in memory.
pub(crate) fn open_writer(path: Option<&Path>) -> Result<Connection> {
    let shown = display_path(path);
    match path {
        Some(path) => prepared(open_file(path, &shown)?, &shown),
        None => in_memory().map_err(|refusal| match refusal {
            Refusal::Library(error) => error,
            Refusal::Sqlite(error) => open_error(&shown, &error),
        }),
    }
}

/// A copy of tables that a process creates once: tests open thousands of databases in memory, and
/// half of the time of such a test was spent on the tables.
fn in_memory() -> Result<Connection, Refusal> {
    static MADE: Mutex<Option<Connection>> = Mutex::new(None);
    let mut made = MADE.lock().unwrap_or_else(PoisonError::into_inner);
    if made.is_none() {
        let connection = Connection::open_in_memory()?;
        make_tables(&connection, &display_path(None))?;
        *made = Some(connection);
    }
    let mut connection = Connection::open_in_memory()?;
    if let Some(made) = &*made {
        Backup::new(made, &mut connection)?.step(-1)?;
    }
    busy::handle(&mut connection)?;
    keep_statements(&connection)?;
    Ok(connection)
}

/// Opens a database that has our tables, for writing. If there is none, nothing is created or
/// changed.
pub(crate) fn open_existing(path: &Path) -> Result<Connection> {
    let shown = display_path(Some(path));
    let none = |problem: String| Err(Error::NoDatabase { path: shown.clone(), problem });
    match fs::metadata(path) {
        Ok(found) if found.is_dir() => return Err(Error::invalid("SQLite path", &shown, "is a folder; name a file in it")),
        Ok(found) if found.len() == 0 => return none("the file is empty".to_owned()),
        Ok(_) => {}
        Err(error) if error.kind() == ErrorKind::NotFound => {
            let problem =
                orphaned_log(path).map_or_else(|| "no such file".to_owned(), |log| format!("only its log {} is left", log.display()));
            return none(problem);
        }
        Err(error) => return none(error.to_string()),
    }
    let mut connection = open_file(path, &shown)?;
    busy::handle(&mut connection).map_err(|error| open_error(&shown, &error))?;
    if !has_tables(&connection).map_err(|error| open_error(&shown, &error))? {
        return none("it is a SQLite database without a queue in it".to_owned());
    }
    prepared(connection, &shown)
}

/// Opens an existing file: SQLite creates none.
fn open_file(path: &Path, shown: &str) -> Result<Connection> {
    linked::check()?;
    let flags = OpenFlags::SQLITE_OPEN_READ_WRITE.union(OpenFlags::SQLITE_OPEN_NO_MUTEX);
    Connection::open_with_flags(path, flags).map_err(|error| open_error(shown, &error))
}

fn prepared(mut connection: Connection, shown: &str) -> Result<Connection> {
    let began = Instant::now();
    loop {
        match prepare(&mut connection, shown) {
            Ok(()) => break,
            // SQLite does not wait for every lock. If two processes that create a new file could
            // wait for each other, it reports this.
            Err(Refusal::Sqlite(error)) if is_busy(&error) && began.elapsed() < busy::PATIENCE => {
                thread::sleep(Duration::from_millis(fastrand::u64(1..5)));
            }
            Err(Refusal::Library(error)) => return Err(error),
            Err(Refusal::Sqlite(error)) => return Err(open_error(shown, &error)),
        }
    }
    Ok(connection)
}

/// Opens the file for reading, in addition to the writer.
pub(crate) fn open_reader(path: &Path) -> Result<Connection> {
    let shown = display_path(Some(path));
    let mut connection = open_file(path, &shown)?;
    busy::handle(&mut connection).map_err(|error| open_error(&shown, &error))?;
    connection.pragma_update(None, "query_only", true).map_err(|error| open_error(&shown, &error))?;
    keep_statements(&connection).map_err(|error| open_error(&shown, &error))?;
    Ok(connection)
}

/// Each statement is prepared once. Without this setting, SQLite would prepare it again when a
/// bound value, such as the number after `LIMIT`, could change its plan.
fn keep_statements(connection: &Connection) -> rusqlite::Result<()> {
    connection.set_prepared_statement_cache_capacity(128);
    connection.set_db_config(DbConfig::SQLITE_DBCONFIG_ENABLE_QPSG, true).map(drop)
}

enum Refusal {
    Library(Error),
    Sqlite(rusqlite::Error),
}

impl From<Error> for Refusal {
    fn from(error: Error) -> Self {
        Refusal::Library(error)
    }
}

impl From<rusqlite::Error> for Refusal {
    fn from(error: rusqlite::Error) -> Self {
        Refusal::Sqlite(error)
    }
}

fn is_busy(error: &rusqlite::Error) -> bool {
    matches!(error.sqlite_error_code(), Some(ErrorCode::DatabaseBusy | ErrorCode::DatabaseLocked))
}

fn prepare(connection: &mut Connection, shown: &str) -> Result<(), Refusal> {
    busy::handle(connection)?;
    if connection.is_readonly(MAIN_DB)? {
        return Err(Refusal::Library(Error::Config(format!(
            "the database {shown} is read-only for this user; change its permissions, or name another file"
        ))));
    }
    let mode: String = connection.pragma_update_and_check(None, "journal_mode", "wal", |row| row.get(0))?;
    if mode != "wal" && mode != "memory" {
        return Err(Refusal::Library(Error::Config(format!(
            "the database {shown} cannot have a write-ahead log (it is in mode {mode}); put it on a local disk"
        ))));
    }
    connection.pragma_update(None, "synchronous", "full")?;
    connection.pragma_update(None, "fullfsync", true)?;
    connection.pragma_update(None, "checkpoint_fullfsync", true)?;
    connection.pragma_update(None, "cache_size", -16_000)?;
    connection.pragma_update(None, "journal_size_limit", 16 * 1024 * 1024)?;
    connection.pragma_update(None, "wal_autocheckpoint", CHECKPOINT_PAGES)?;
    keep_statements(connection)?;
    // One process creates the tables, and the others wait here for it.
    connection.execute_batch("BEGIN IMMEDIATE")?;
    let made = make_tables(connection, shown);
    connection.execute_batch(if made.is_ok() { "COMMIT" } else { "ROLLBACK" })?;
    made
}

/// Creates the tables in a file without ours, or checks that they have this library's schema.
fn make_tables(connection: &Connection, shown: &str) -> Result<(), Refusal> {
    if has_tables(connection)? {
        check(schema_number(connection)?, shown)?;
    } else {
        connection.execute_batch(TABLES)?;
        connection.execute("INSERT INTO queue_meta (name, value) VALUES ('schema', ?1)", [Unsigned(SCHEMA)])?;
    }
    Ok(triggers::prune(connection, Clock::default().now_ms(), 1_000).map(drop)?)
}

/// Whether a database has our tables.
fn has_tables(connection: &Connection) -> rusqlite::Result<bool> {
    connection.prepare("SELECT 1 FROM sqlite_schema WHERE name = 'queue_meta'")?.exists([])
}

/// The schema number in the file; 0 if there is none.
fn schema_number(connection: &Connection) -> rusqlite::Result<u64> {
    connection
        .prepare_cached("SELECT value FROM queue_meta WHERE name = 'schema'")?
        .query_row([], |row| Unsigned::get(row, 0))
        .optional()
        .map(Option::unwrap_or_default)
}

/// The data that every transaction reads.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Noted {
    pub(crate) schema: u64,
    /// The bits of the [features](Feature) that were ever used in the file.
    pub(crate) uses: i64,
    /// Whether a caller waits for the end of a job.
    pub(crate) watched: bool,
}

/// Reads the data that every transaction needs.
pub(crate) fn read_noted(connection: &Connection) -> rusqlite::Result<Noted> {
    connection
        .prepare_cached("SELECT value, uses, EXISTS (SELECT 1 FROM queue_watched) FROM queue_meta WHERE name = 'schema'")?
        .query_row([], |row| Ok(Noted { schema: Unsigned::get(row, 0)?, uses: row.get(1)?, watched: row.get(2)? }))
        .optional()
        .map(Option::unwrap_or_default)
}

/// Records that a feature is used in the file.
pub(crate) fn mark_feature_used(connection: &Connection, feature: Feature) -> rusqlite::Result<()> {
    connection.execute("UPDATE queue_meta SET uses = uses | ?1 WHERE name = 'schema'", [feature as i64]).map(drop)
}

/// Rejects tables of another schema. A newer library may upgrade them while this one runs.
pub(crate) fn check(found: u64, shown: &str) -> Result<()> {
    match found.cmp(&SCHEMA) {
        Ordering::Equal => Ok(()),
        Ordering::Greater => Err(Error::SchemaTooNew { queue: shown.to_owned(), found, known: SCHEMA }),
        Ordering::Less => Err(Error::Config(format!(
            "the database {shown} has schema {found}, of a version before the first release, and this library supports schema {SCHEMA}; \
             move the file away, or name another one (nothing was written)"
        ))),
    }
}

/// The log of a missing database. SQLite would delete it as soon as a new file is created next to
/// it.
fn orphaned_log(path: &Path) -> Option<PathBuf> {
    let log = logs_of(path).into_iter().find(|log| log.exists());
    // In this order: a log comes after its file.
    log.filter(|_| !path.exists())
}

/// Creates a file for a new database, private to its user, if there is none. Reports problems for
/// which SQLite would only report "unable to open".
pub(crate) fn make_file(path: &Path) -> Result<()> {
    linked::check()?;
    let invalid = |problem: &str| Err(Error::invalid("SQLite path", path.to_string_lossy(), problem));
    if path.is_dir() {
        return invalid("is a folder; name a file in it");
    }
    if path.exists() {
        return Ok(());
    }
    if path.is_symlink() {
        return invalid("is a link to a file that does not exist; create that file, or name it");
    }
    match path.parent() {
        Some(parent) if !parent.as_os_str().is_empty() && !parent.is_dir() => {
            return invalid("is in a folder that does not exist; create it first");
        }
        _ => {}
    }
    if let Some(log) = orphaned_log(path) {
        let (path, log) = (path.display(), log.display());
        return Err(Error::Config(format!(
            "the database {path} is missing, and its log {log} holds the last writes; restore the database, or remove its -wal and -shm to start with an empty one"
        )));
    }
    let mut options = fs::OpenOptions::new();
    options.write(true).create_new(true);
    #[cfg(unix)]
    std::os::unix::fs::OpenOptionsExt::mode(&mut options, 0o600);
    match options.open(path) {
        Ok(_) => Ok(()),
        Err(error) if error.kind() == ErrorKind::AlreadyExists => Ok(()),
        Err(error) => invalid(&format!("cannot be created: {error}")),
    }
}

/// Converts an error of SQLite.
pub(crate) fn open_error(shown: &str, error: &rusqlite::Error) -> Error {
    let full = || Error::BrokerFull { broker: shown.to_owned(), problem: "the disk is full".to_owned() };
    match error.sqlite_error_code() {
        Some(ErrorCode::NotADatabase) => Error::Config(format!("{shown} is not a SQLite database; name another file")),
        Some(ErrorCode::ReadOnly) => {
            Error::Config(format!("the database {shown} or its folder is read-only; change its permissions, or name another file"))
        }
        Some(ErrorCode::CannotOpen | ErrorCode::PermissionDenied) => {
            Error::Config(format!("cannot open the database {shown}: {error}; check the permissions of the file and its folder"))
        }
        Some(ErrorCode::DatabaseBusy | ErrorCode::DatabaseLocked) => unavailable(shown, "another process has held its lock for 4 s", error),
        // The second is the error for the index of the write-ahead log on a full disk.
        Some(ErrorCode::DiskFull) => full(),
        _ if error.sqlite_error().is_some_and(|error| error.extended_code == rusqlite::ffi::SQLITE_IOERR_SHMSIZE) => full(),
        _ => unavailable(shown, error.to_string(), error),
    }
}

/// Adds the message of SQLite.
pub(crate) fn unavailable(shown: &str, problem: impl Into<String>, error: &rusqlite::Error) -> Error {
    let unavailable = Error::unavailable(shown, problem);
    match error.sqlite_error() {
        Some(error) => unavailable.caused_by(*error),
        None => unavailable,
    }
}
