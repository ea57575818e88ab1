//! The common code of the adapters of database libraries, including those in other packages: the
//! SQL, and the evaluation of its results. It is not part of the public interface.

use std::sync::Once;

pub use crate::completion::Committing;
use crate::{
    Outbox, Prepared,
    dialect::{Dialect, VERSION},
    error::{Error, Result},
};

/// The maximum number of rows and bytes in one INSERT of several rows.
const ROWS: usize = 1000;
const BYTES: usize = 4 << 20;

/// Splits these rows into the rows of each statement.
pub fn pieces(mut rows: &[Prepared]) -> Vec<&[Prepared]> {
    let mut pieces = Vec::new();
    while !rows.is_empty() {
        let mut bytes = 0;
        let fitting = rows.iter().take(ROWS).take_while(|row| {
            bytes += row.body.len();
            bytes <= BYTES
        });
        let (piece, behind) = rows.split_at(fitting.count().max(1));
        pieces.push(piece);
        rows = behind;
    }
    pieces
}

/// Selects in PostgreSQL the values for [`why_not`].
pub fn why_not_sql(outbox: &Outbox) -> String {
    format!("SELECT id, version, full_queues FROM {}.queue_database", outbox.schema())
}

/// The reason why no row was inserted for jobs of these queues.
pub fn why_not(outbox: &Outbox, id: &[u8], version: i32, full: &[String], queues: &[&str]) -> Error {
    let queue = queues.iter().find(|queue| full.iter().any(|full| full == *queue)).or(queues.first());
    outbox.why_not(id, version, queue.copied().unwrap_or_default())
}

/// Selects in PostgreSQL the number of a transaction that has just begun. Sets the transaction to
/// commit durably.
pub fn begun_sql(outbox: &Outbox) -> String {
    let synced = match outbox.may_lose_effects() {
        true => "",
        false => ", CASE WHEN current_setting('synchronous_commit') = 'off' THEN set_config('synchronous_commit', 'on', true) END",
    };
    format!("SELECT pg_current_xact_id()::text{synced}")
}

/// The lowest value of `PRAGMA synchronous` at which SQLite keeps a commit: `FULL`.
const FULL: i64 = 2;

/// Returns an error for a SQLite connection with this `PRAGMA main.synchronous`.
///
/// # Errors
/// [`Error::Synchronous`].
pub fn check_synchronous(outbox: &Outbox, found: i64) -> Result<()> {
    if found < FULL && !outbox.may_lose_effects() { Err(Error::Synchronous { found }) } else { Ok(()) }
}

/// Selects the version of the linked SQLite, for [`warn_of_wal_reset_bug`].
pub const VERSION_SQL: &str = "SELECT sqlite_version()";

/// Logs one warning if this version of SQLite has the [WAL-reset
/// bug](https://sqlite.org/wal.html#walresetbug).
pub fn warn_of_wal_reset_bug(version: &str) {
    static WARNED: Once = Once::new();
    if has_wal_reset_bug(version) {
        WARNED.call_once(|| {
            tracing::warn!(version, "this SQLite has the WAL-reset bug, which can corrupt the file of an outbox; update libsqlite3-sys");
        });
    }
}

/// Whether this version of SQLite can corrupt a file that several connections write to.
fn has_wal_reset_bug(version: &str) -> bool {
    let mut numbers = version.split('.').map(|number| number.parse().unwrap_or(0));
    let mut next = || numbers.next().unwrap_or(0_u32);
    !matches!((next(), next(), next()), (3, 44, 6..) | (3, 50, 7..) | (3, 51, 3..) | (3, 52.., _) | (4.., _, _))
}

/// Selects name and file of the attached databases in SQLite.
pub const ATTACHED_SQL: &str = "SELECT name, file FROM pragma_database_list WHERE name NOT IN ('main', 'temp') AND file <> ''";

/// Stores the ending of a job, as the last statement of its transaction. It has six parameters: the
/// identity of the database, [`VERSION`], the number of the transaction (NULL in SQLite), the key,
/// the ending, and the ending of the round before. If it changes no row, see
/// [`Committing::why_not`].
pub fn commit_sql(outbox: &Outbox, committing: &Committing<'_>) -> String {
    let schema = outbox.schema();
    // Only one run can replace the row of the round before.
    match (outbox.dialect(), committing.before()) {
        (Dialect::Postgres, None) => format!(
            "INSERT INTO {schema}.queue_effects (job, ending) SELECT $4::bytea, $5::bytea FROM {schema}.queue_database d \
             WHERE d.id = $1::bytea AND d.version <= $2::int4 AND pg_current_xact_id()::text = $3::text AND $6::bytea IS NULL"
        ),
        (Dialect::Postgres, Some(_)) => format!(
            "UPDATE {schema}.queue_effects e SET ending = $5::bytea, at = clock_timestamp() FROM {schema}.queue_database d \
             WHERE d.id = $1::bytea AND d.version <= $2::int4 AND pg_current_xact_id()::text = $3::text AND e.job = $4::bytea AND e.part = '' \
             AND e.ending = $6::bytea"
        ),
        (Dialect::Sqlite, None) => "INSERT INTO main.queue_effects (job, ending) SELECT ?4, ?5 FROM main.queue_database d \
             WHERE d.id = ?1 AND d.version <= ?2 AND ?3 IS NULL AND ?6 IS NULL"
            .to_owned(),
        (Dialect::Sqlite, Some(_)) => {
            "UPDATE main.queue_effects SET ending = ?5, at = CAST((julianday('now') - 2440587.5) * 86400000 AS INTEGER) \
             WHERE job = ?4 AND part = '' AND ending = ?6 AND ?3 IS NULL \
             AND EXISTS (SELECT 1 FROM main.queue_database d WHERE d.id = ?1 AND d.version <= ?2)"
                .to_owned()
        }
    }
}

/// Selects the values for [`Committing::why_not`].
pub fn why_no_commit_sql(outbox: &Outbox) -> String {
    let number = match outbox.dialect() {
        Dialect::Postgres => "pg_current_xact_id()::text",
        Dialect::Sqlite => "NULL",
    };
    format!("SELECT id, version, {number} FROM {}.queue_database", outbox.schema())
}

impl Committing<'_> {
    /// The key of the row.
    pub fn key(&self) -> &[u8] {
        self.completion.key()
    }

    /// The ending of the round before, if the job repeats.
    pub fn before(&self) -> Option<&[u8]> {
        self.completion.before()
    }

    /// The encoded ending.
    pub fn ending(&self) -> &[u8] {
        &self.encoded
    }

    /// The reason why no row was inserted or replaced. The transaction had the number `begun` at
    /// its begin, and now has the number `now`.
    pub fn why_not(&self, outbox: &Outbox, id: &[u8], version: i32, begun: Option<&str>, now: Option<&str>) -> Error {
        if id != outbox.database() {
            Error::OtherDatabase
        } else if version > VERSION {
            Error::TooNew { found: version, known: VERSION }
        } else if now != begun {
            self.ended()
        } else {
            self.lost_race()
        }
    }
}

/// The error if the table `queue_database` has no row.
pub fn no_row(dialect: Dialect) -> Error {
    let hidden =
        if dialect == Dialect::Postgres { ", or row-level security hides it: disable it for the tables of the outbox" } else { "" };
    no_tables(dialect, format!("queue_database has no row{hidden}"))
}

/// The error if a table is missing, with the message of the database.
pub fn no_tables(dialect: Dialect, problem: impl Into<String>) -> Error {
    Error::NoTables { dialect: dialect.name(), problem: problem.into() }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn versions_without_the_fix_of_the_wal_reset_bug_are_known() {
        for version in ["3.7.17", "3.35.0", "3.44.5", "3.45.0", "3.46.0", "3.50.6", "3.51.2", "3.51"] {
            assert!(has_wal_reset_bug(version), "{version}");
        }
        for version in ["3.44.6", "3.50.7", "3.51.3", "3.52.0", "3.54.1", "4.0.0"] {
            assert!(!has_wal_reset_bug(version), "{version}");
        }
    }
}
