//! The tables, and opening a file that may hold them already.
//!
//! | table | holds |
//! |---|---|
//! | `queue_meta` | the schema number |
//! | `queue_queues` | a row per queue: pause flag, the counters of claims and registrations, both ends of `ready` |
//! | `queue_jobs` | a row per job, whatever its state |
//! | `queue_parked` | the parked jobs by task |
//! | `queue_lanes` | a row per lane: sequence, last answer, deadline |
//! | `queue_workers` | a row per worker with a lane: its record |
//! | `queue_loads` | a row per worker with a lane: what it uses, and what it was asked |
//! | `queue_leaving` | a row per lane whose worker has stopped and left jobs behind |
//! | `queue_gone` | jobs that were cancelled under a lane |
//! | `queue_producers` | a row per producer: sequence, last answers |
//! | `queue_keyed` | a row per job that was enqueued with a key: the key, and how it is held |
//! | `queue_keys` | a row per key that is held: by which job, for how long, and who waits for it |
//! | `queue_grouped`, `queue_groups` | a row per job with a group; a row per group that has or had a line |
//! | `queue_holders` | a row per job that runs and has a group |
//! | `queue_rules`, `queue_turns` | rules of groups; a row per queue with groups: its virtual time |
//! | `queue_limits` | a row per limit: what is declared and set of it |
//! | `queue_limited`, `queue_chains` | a row per job with limits; a row per kind of such jobs that are ready |
//! | `queue_slots`, `queue_rates`, `queue_wakes` | keys of limits: who holds them, their rates, when they have room |
//! | `queue_aging`, `queue_rising` | a row per queue whose waiting jobs rise; a row per job that may, while it is ready and perhaps for longer |
//! | `queue_remembered` | digests of given ids whose jobs are done |
//! | `queue_counters` | what happened since the queue exists |
//! | `queue_history` | a row per task and per minute or hour in a circle: what happened then |
//! | `queue_tasks` | a row per task with a history: the hour in which it was last heard of |
//! | `queue_deployed` | a row per release of workers: when it was first seen |
//! | `queue_reporters` | a row per worker: number and hour of its last report |
//! | `queue_failures` | a row per kind of failures: what is known of it. The first failure makes the table |
//! | `queue_schedules` | a row per schedule: its definition and state, and when it is due |
//! | `queue_ticked` | jobs of schedules that have not ended |
//! | `queue_watched` | jobs for whose end somebody waits, and until when |
//! | `queue_followed`, `queue_transitions` | queues that a watcher follows or has followed, and the last transitions of their jobs |
//! | `queue_remarks` | what handlers have told of jobs: progress and log |
//! | `queue_tags` | a row per tag of a job, by a digest of its name and value |
//! | `queue_pauses` | who paused a queue, when, why and until when; and when pauses of groups end |
//! | `queue_operations` | what people do to all jobs that match, step by step: the one that is under way, and the last that have ended |
//! | `queue_topics`, `queue_log` | a row per topic: how many entries were added, what it keeps; a row per entry of its log |
//! | `queue_subscriptions` | a row per subscription: its cursor |
//! | `queue_backfilled` | ids of jobs that a backfill or a person made, for a day |
//!
//! `queue_jobs` is read through one index, `(queue, state, rank, pos)`, whose last two columns mean what the state needs:
//!
//! | state | number | rank | pos |
//! |---|---|---|---|
//! | `ready` | 0 | priority | place in the line |
//! | `ready`, a suspect | 1 | 0 | place in the line |
//! | `scheduled`, `retry` | 2, 3 | 0 | when it is due |
//! | `active` | 4 | the lane's row in `queue_lanes` | the claim number: together the tag |
//! | `parked` | 5 | 0 | when it is buried because releases could not read it; else 2^52 |
//! | `done`, `cancelled`, `expired` | 6, 8, 9 | 0 | until when it is kept |
//! | `dead` | 7 | 0 | when it died |
//! | `held` | 10 | 0 | when it is due, once its key is free |
//! | `ready`, of a group | 11 | the line of its group | 56 bits of a number, and above them one more than the priority, or 0 for who holds the line |
//! | the same, a suspect | 12 | the line of its group | the number |
//! | `ready`, with limits | 13 | its chain | the number |

use std::{
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

/// What makes each schema of the one before it; the last is the one that this library writes. Only ever added to.
const MIGRATIONS: &[&str] = &[include_str!("migrations/001_jobs.sql")];

/// Tables that are empty until a feature is used, so that they raise no schema number; those of the history are left alone by a library without them.
const ASIDE: [&str; 11] = [
    include_str!("migrations/history.sql"),
    include_str!("migrations/keys.sql"),
    include_str!("migrations/schedules.sql"),
    include_str!("migrations/watched.sql"),
    include_str!("migrations/remarks.sql"),
    include_str!("migrations/topics.sql"),
    include_str!("migrations/loads.sql"),
    include_str!("migrations/pauses.sql"),
    include_str!("migrations/operations.sql"),
    include_str!("migrations/tags.sql"),
    include_str!("migrations/followed.sql"),
];

/// Columns that an older library leaves alone, so that they raise no schema number.
const RELEASES: &str = include_str!("migrations/releases.sql");

/// Tables that the first job or rule of a group makes, together with [`WITH_GROUPS`]. A file without groups has none of them.
const GROUPS: &str = include_str!("migrations/groups.sql");
/// Those of limits, which are made with them.
const LIMITS: &str = include_str!("migrations/limits.sql");
/// The same for aging, together with [`WITH_AGING`].
const AGING: &str = include_str!("migrations/aging.sql");

/// The schema that this library writes.
const SCHEMA: u64 = MIGRATIONS.len() as u64;

/// The schema of a file from the first time on that a job in it has a key: a library that knows no keys would ignore them, and refuses the file.
pub(crate) const WITH_KEYS: u64 = 2;

/// The same from the first time on that a job has a group, or a group has a rule.
pub(crate) const WITH_GROUPS: u64 = 3;

/// The same from the first time on that a job has limits.
pub(crate) const WITH_LIMITS: u64 = 4;

/// The same from the first time on that jobs of a queue rise that wait.
pub(crate) const WITH_AGING: u64 = 5;

/// The same from the first time on that a pause ends by itself.
pub(crate) const WITH_PAUSES: u64 = 6;

/// The newest schema that this library knows.
const KNOWN: u64 = WITH_PAUSES;

/// How long the write-ahead log gets before it is merged into the file. What it holds by then has to fit into the ballast.
pub(crate) const CHECKPOINT_PAGES: u32 = 1000;

/// A database for people.
pub(crate) fn shown(path: Option<&Path>) -> String {
    path.map_or_else(|| ":memory:".to_owned(), |path| path.display().to_string())
}

/// Opens a file that [`make_file`] has made, or that was there, for writing; makes its tables where they are missing, and refuses
/// what it should not touch. Without a path it is in memory.
pub(crate) fn open_writer(path: Option<&Path>) -> Result<Connection> {
    let shown = shown(path);
    match path {
        Some(path) => prepared(open_file(path, &shown)?, &shown),
        None => in_memory().map_err(|refusal| match refusal {
            Refusal::Ours(error) => error,
            Refusal::Sqlite(error) => refused(&shown, &error),
        }),
    }
}

/// A copy of tables that a process makes once: tests open thousands of databases in memory, and making the tables took half of such a test.
fn in_memory() -> Result<Connection, Refusal> {
    static MADE: Mutex<Option<Connection>> = Mutex::new(None);
    let mut made = MADE.lock().unwrap_or_else(PoisonError::into_inner);
    if made.is_none() {
        let connection = Connection::open_in_memory()?;
        migrate(&connection, &shown(None))?;
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

/// Opens a database that has our tables, for writing. Where there is none, nothing is made and nothing changed.
pub(crate) fn open_existing(path: &Path) -> Result<Connection> {
    let shown = shown(Some(path));
    let none = |problem: String| Err(Error::NoDatabase { path: shown.clone(), problem });
    match fs::metadata(path) {
        Ok(found) if found.is_dir() => return Err(Error::invalid("SQLite path", &shown, "is a folder; name a file in it")),
        Ok(found) if found.len() == 0 => return none("the file is empty".to_owned()),
        Ok(_) => {}
        Err(error) if error.kind() == ErrorKind::NotFound => {
            let problem =
                left_behind(path).map_or_else(|| "no such file".to_owned(), |log| format!("only its log {} is left", log.display()));
            return none(problem);
        }
        Err(error) => return none(error.to_string()),
    }
    let mut connection = open_file(path, &shown)?;
    busy::handle(&mut connection).map_err(|error| refused(&shown, &error))?;
    let ours = connection.query_row("SELECT 1 FROM sqlite_schema WHERE name = 'queue_meta'", [], |_| Ok(())).optional();
    if ours.map_err(|error| refused(&shown, &error))?.is_none() {
        return none("it is a SQLite database without a queue in it".to_owned());
    }
    prepared(connection, &shown)
}

/// Opens a file that is there: SQLite makes none.
fn open_file(path: &Path, shown: &str) -> Result<Connection> {
    linked::check()?;
    let flags = OpenFlags::SQLITE_OPEN_READ_WRITE.union(OpenFlags::SQLITE_OPEN_NO_MUTEX);
    Connection::open_with_flags(path, flags).map_err(|error| refused(shown, &error))
}

fn prepared(mut connection: Connection, shown: &str) -> Result<Connection> {
    let began = Instant::now();
    loop {
        match prepare(&mut connection, shown) {
            Ok(()) => break,
            // Not every lock is waited for by SQLite: where two could wait for each other, as both make a new file, it says so.
            Err(Refusal::Sqlite(error)) if is_busy(&error) && began.elapsed() < busy::PATIENCE => {
                thread::sleep(Duration::from_millis(fastrand::u64(1..5)));
            }
            Err(Refusal::Ours(error)) => return Err(error),
            Err(Refusal::Sqlite(error)) => return Err(refused(shown, &error)),
        }
    }
    Ok(connection)
}

/// Opens the file for reading beside the writer.
pub(crate) fn open_reader(path: &Path) -> Result<Connection> {
    let shown = shown(Some(path));
    let mut connection = open_file(path, &shown)?;
    busy::handle(&mut connection).map_err(|error| refused(&shown, &error))?;
    connection.pragma_update(None, "query_only", true).map_err(|error| refused(&shown, &error))?;
    keep_statements(&connection).map_err(|error| refused(&shown, &error))?;
    Ok(connection)
}

/// Each statement is prepared once. SQLite would do so again whenever a value is bound that could change its plan, as the
/// number after `LIMIT`.
fn keep_statements(connection: &Connection) -> rusqlite::Result<()> {
    connection.set_prepared_statement_cache_capacity(128);
    connection.set_db_config(DbConfig::SQLITE_DBCONFIG_ENABLE_QPSG, true).map(drop)
}

enum Refusal {
    Ours(Error),
    Sqlite(rusqlite::Error),
}

impl From<Error> for Refusal {
    fn from(error: Error) -> Self {
        Refusal::Ours(error)
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
        return Err(Refusal::Ours(Error::Config(format!(
            "the database {shown} is read-only for this user; change its permissions, or name another file"
        ))));
    }
    let mode: String = connection.pragma_update_and_check(None, "journal_mode", "wal", |row| row.get(0))?;
    if mode != "wal" && mode != "memory" {
        return Err(Refusal::Ours(Error::Config(format!(
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
    // One process makes the tables; the others wait here for it.
    connection.execute_batch("BEGIN IMMEDIATE")?;
    let made = migrate(connection, shown);
    connection.execute_batch(if made.is_ok() { "COMMIT" } else { "ROLLBACK" })?;
    made
}

/// Brings the tables up to date.
fn migrate(connection: &Connection, shown: &str) -> Result<(), Refusal> {
    connection.execute_batch("CREATE TABLE IF NOT EXISTS queue_meta (name TEXT PRIMARY KEY, value INTEGER NOT NULL) WITHOUT ROWID")?;
    let found = found(connection)?;
    check(found, shown)?;
    let missing = MIGRATIONS.iter().skip(usize::try_from(found).unwrap_or(usize::MAX));
    for migration in missing {
        connection.execute_batch(migration)?;
    }
    let has = |column: &str| {
        let named = "SELECT EXISTS (SELECT 1 FROM pragma_table_info('queue_jobs') WHERE name = ?1)";
        connection.query_row(named, [column], |row| row.get::<_, bool>(0))
    };
    if !has("ran")? {
        connection.execute_batch("ALTER TABLE queue_jobs ADD COLUMN ran INTEGER")?;
    }
    for tables in ASIDE {
        connection.execute_batch(tables)?;
    }
    if !has("releases")? {
        connection.execute_batch(RELEASES)?;
    }
    if found >= WITH_GROUPS {
        connection.execute_batch(GROUPS)?;
        connection.execute_batch(LIMITS)?;
    }
    if found >= WITH_AGING {
        connection.execute_batch(AGING)?;
    }
    if found < SCHEMA {
        connection.execute("INSERT OR REPLACE INTO queue_meta (name, value) VALUES ('schema', ?1)", [Unsigned(SCHEMA)])?;
    }
    Ok(triggers::prune(connection, Clock::default().now_ms(), 1_000).map(drop)?)
}

/// The schema number in the file; 0 when nothing was made yet.
pub(crate) fn found(connection: &Connection) -> rusqlite::Result<u64> {
    connection
        .prepare_cached("SELECT value FROM queue_meta WHERE name = 'schema'")?
        .query_row([], |row| Unsigned::get(row, 0))
        .optional()
        .map(Option::unwrap_or_default)
}

/// What every transaction reads: the schema number in the file, and whether somebody waits for the end of a job.
pub(crate) fn noted(connection: &Connection) -> rusqlite::Result<(u64, bool)> {
    connection
        .prepare_cached("SELECT value, EXISTS (SELECT 1 FROM queue_watched) FROM queue_meta WHERE name = 'schema'")?
        .query_row([], |row| Ok((Unsigned::get(row, 0)?, row.get(1)?)))
        .optional()
        .map(Option::unwrap_or_default)
}

/// Makes the tables of groups, and has libraries that know no groups refuse this file.
pub(crate) fn note_groups(connection: &Connection) -> rusqlite::Result<()> {
    connection.execute_batch(GROUPS)?;
    connection.execute_batch(LIMITS)?;
    note(connection, WITH_GROUPS)
}

/// Makes the tables of aging, and those before them, and has libraries that do not know it refuse this file.
pub(crate) fn note_aging(connection: &Connection) -> rusqlite::Result<()> {
    connection.execute_batch(GROUPS)?;
    connection.execute_batch(LIMITS)?;
    connection.execute_batch(AGING)?;
    note(connection, WITH_AGING)
}

/// Makes the tables of all features before it, and has libraries that do not know when a pause ends refuse this file.
pub(crate) fn note_pauses(connection: &Connection) -> rusqlite::Result<()> {
    note_aging(connection)?;
    note(connection, WITH_PAUSES)
}

/// Raises the schema number in the file.
pub(crate) fn note(connection: &Connection, least: u64) -> rusqlite::Result<()> {
    connection.execute("UPDATE queue_meta SET value = max(value, ?1) WHERE name = 'schema'", [Unsigned(least)]).map(drop)
}

/// Refuses the tables of a newer library, which another process may have brought while this one runs.
pub(crate) fn check(found: u64, shown: &str) -> Result<()> {
    if found > KNOWN {
        return Err(Error::SchemaTooNew { queue: shown.to_owned(), found, known: KNOWN });
    }
    Ok(())
}

/// The log of a database, where that is missing. SQLite would delete it as soon as there is a new file beside it.
fn left_behind(path: &Path) -> Option<PathBuf> {
    let log = logs_of(path).into_iter().find(|log| log.exists());
    // In this order: a log comes after its file.
    log.filter(|_| !path.exists())
}

/// Makes a file for a new database, private to its user, where there is none. Says what SQLite would only call "unable to open".
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
    if let Some(log) = left_behind(path) {
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

/// What SQLite has said, as one of our errors.
pub(crate) fn refused(shown: &str, error: &rusqlite::Error) -> Error {
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
        // The second is what the index of the log beside the database is told on a full disk.
        Some(ErrorCode::DiskFull) => full(),
        _ if error.sqlite_error().is_some_and(|error| error.extended_code == rusqlite::ffi::SQLITE_IOERR_SHMSIZE) => full(),
        _ => unavailable(shown, error.to_string(), error),
    }
}

/// With what SQLite itself has said behind it.
pub(crate) fn unavailable(shown: &str, problem: impl Into<String>, error: &rusqlite::Error) -> Error {
    let unavailable = Error::unavailable(shown, problem);
    match error.sqlite_error() {
        Some(error) => unavailable.caused_by(*error),
        None => unavailable,
    }
}
