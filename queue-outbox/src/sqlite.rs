//! An outbox in a SQLite file, with rusqlite. Its transaction is not `Send`, so these are
//! synchronous functions, for `#[task(blocking)]` and `spawn_blocking`.
//!
//! Begin the transaction with `TransactionBehavior::Immediate`: one that reads first and writes
//! later fails with `SQLITE_BUSY_SNAPSHOT` if another connection, such as the relay's, has written
//! in between.
//!
//! ```no_run
//! use queue_core::prelude::*;
//! use queue_outbox::{Outbox, sqlite::EnqueueIn};
//! use rusqlite::{Connection, TransactionBehavior};
//!
//! #[task]
//! async fn send_receipt(order: i64) {}
//!
//! # fn example(connection: &mut Connection) -> Result<(), Box<dyn std::error::Error>> {
//! let outbox = Outbox::sqlite(connection)?;
//!
//! let tx = connection.transaction_with_behavior(TransactionBehavior::Immediate)?;
//! tx.execute("INSERT INTO orders DEFAULT VALUES", ())?;
//! send_receipt::job(tx.last_insert_rowid()).enqueue_in(&outbox, &tx)?;
//! tx.commit()?;
//! outbox.wake();
//! # Ok(()) }
//! ```

mod commit;
pub(crate) mod store;

use queue_core::{__private::row::Outgoing, Event, JobAddress};
use rusqlite::{Connection, OptionalExtension, Transaction, params};

pub use self::commit::{Commit, JobTransaction};
use crate::{
    Outbox, Prepared, adapter,
    dialect::{Dialect, VERSION},
    error::{Error, Result},
};

impl Outbox {
    /// Opens the outbox in the main database of this connection. If the linked SQLite has the
    /// [WAL-reset bug](https://sqlite.org/wal.html#walresetbug), it logs one warning.
    ///
    /// # Errors
    /// [`Error::NoTables`], [`Error::TooNew`], [`Error::Sqlite`].
    pub fn sqlite(connection: &Connection) -> Result<Outbox> {
        let (id, version) = database(connection)?;
        Outbox::with_database(Dialect::Sqlite, "main", id, version)
    }
}

/// Stores a job in an outbox: a [`Job`](queue_core::Job), a [`RawJob`](queue_core::RawJob), or a
/// [`Publication`](queue_core::topics::Publication).
pub trait EnqueueIn: Outgoing + Sized {
    /// Stores it in the transaction. If the transaction rolls back, it is never enqueued. If it
    /// commits, a relay submits it until the broker has answered.
    ///
    /// # Errors
    /// [`Error::Queue`] for a job that cannot be enqueued; [`Error::OtherDatabase`],
    /// [`Error::Full`], [`Error::NoTables`], [`Error::TooNew`]; [`Error::Sqlite`]. Roll the
    /// transaction back, or the data is stored without the job.
    fn enqueue_in(self, outbox: &Outbox, tx: &Transaction<'_>) -> Result<JobAddress> {
        outbox.is_in(Dialect::Sqlite)?;
        let row = outbox.prepare(self)?;
        insert(outbox, tx, &row)?;
        Ok(row.address)
    }
}

impl<J: Outgoing> EnqueueIn for J {}

/// Stores an event in an outbox.
pub trait PublishIn: Event + Sized {
    /// Stores it in the transaction. If the transaction rolls back, it is never published. An event
    /// with options is stored by [`enqueue_in`](EnqueueIn::enqueue_in) of its
    /// [`Publication`](queue_core::topics::Publication).
    ///
    /// # Errors
    /// Those of [`enqueue_in`](EnqueueIn::enqueue_in).
    fn publish_in(self, outbox: &Outbox, tx: &Transaction<'_>) -> Result<JobAddress> {
        self.event().enqueue_in(outbox, tx)
    }
}

impl<E: Event> PublishIn for E {}

/// Stores many jobs in an outbox.
pub trait EnqueueAllIn: Sized {
    /// Stores them in the transaction. If one of them cannot be enqueued, none is inserted.
    ///
    /// # Errors
    /// Those of [`enqueue_in`](EnqueueIn::enqueue_in).
    fn enqueue_all_in(self, outbox: &Outbox, tx: &Transaction<'_>) -> Result<Vec<JobAddress>>;
}

impl<I: IntoIterator<Item: Outgoing>> EnqueueAllIn for I {
    fn enqueue_all_in(self, outbox: &Outbox, tx: &Transaction<'_>) -> Result<Vec<JobAddress>> {
        outbox.is_in(Dialect::Sqlite)?;
        let rows = self.into_iter().map(|job| outbox.prepare(job)).collect::<Result<Vec<_>>>()?;
        tx.execute_batch("SAVEPOINT queue_outbox")?;
        let inserted = rows.iter().try_for_each(|row| insert(outbox, tx, row));
        tx.execute_batch(if inserted.is_ok() { "RELEASE queue_outbox" } else { "ROLLBACK TO queue_outbox; RELEASE queue_outbox" })?;
        inserted?;
        Ok(rows.into_iter().map(|row| row.address).collect())
    }
}

fn insert(outbox: &Outbox, tx: &Transaction<'_>, row: &Prepared) -> Result<()> {
    let mut statement = tx.prepare_cached(outbox.insert_sql()).map_err(with_tables)?;
    let inserted = statement.execute(params![outbox.database(), VERSION, row.id, row.queue, row.group_digest, row.body])?;
    if inserted == 0 {
        let (id, version) = database(tx)?;
        return Err(outbox.why_not(&id, version, &row.queue));
    }
    Ok(())
}

/// The identity of a database, and the version of its tables.
fn database(connection: &Connection) -> Result<(Vec<u8>, i32)> {
    adapter::warn_of_wal_reset_bug(rusqlite::version());
    let found = connection.query_row(&Dialect::Sqlite.database_sql("main")?, (), |row| Ok((row.get(0)?, row.get(1)?))).optional();
    let found = found.map_err(|error| match attached(connection) {
        Some(file) => adapter::no_tables(
            Dialect::Sqlite,
            format!("the tables in the attached file `{file}` cannot be used, because a commit across files is not atomic"),
        ),
        None => with_tables(error),
    });
    found?.ok_or_else(|| adapter::no_row(Dialect::Sqlite))
}

/// The attached file that has the tables of an outbox.
fn attached(connection: &Connection) -> Option<String> {
    let mut attached = connection.prepare(adapter::ATTACHED_SQL).ok()?;
    let files = attached.query_map((), |row| Ok((row.get::<_, String>(0)?, row.get::<_, String>(1)?))).ok()?.flatten();
    let has_tables = |name: &str| connection.prepare(&format!("SELECT id FROM \"{}\".queue_database", name.replace('"', "\"\""))).is_ok();
    files.into_iter().find(|(name, _)| has_tables(name)).map(|(_, file)| file)
}

/// A missing table has a separate error.
fn with_tables(error: rusqlite::Error) -> Error {
    match error.to_string() {
        cause if cause.contains("no such table") => adapter::no_tables(Dialect::Sqlite, cause),
        _ => Error::Sqlite(error),
    }
}
