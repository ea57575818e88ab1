//! Effects that commit together with the ending of their job, with rusqlite.

use std::{
    fmt,
    ops::{Deref, DerefMut},
    time::Duration,
};

use queue_core::{
    __private::{Completion, StoredEnding},
    Done, JobContext,
};
use rusqlite::{Connection, ErrorCode, OptionalExtension, Transaction, TransactionBehavior, params, types::Null};
use serde::{Serialize, de::DeserializeOwned};

use super::with_tables;
use crate::{
    Outbox,
    adapter::{self, Committing},
    dialect::{Dialect, VERSION},
    error::{Error, Result},
};

/// The transaction of a run, from [`begin`](Commit::begin). It dereferences to the transaction of
/// rusqlite. It is rolled back when it is dropped.
pub struct JobTransaction<'a> {
    tx: Transaction<'a>,
    outbox: Outbox,
}

impl<'a> Deref for JobTransaction<'a> {
    type Target = Transaction<'a>;

    fn deref(&self) -> &Transaction<'a> {
        &self.tx
    }
}

/// For savepoints.
impl DerefMut for JobTransaction<'_> {
    fn deref_mut(&mut self) -> &mut Self::Target {
        &mut self.tx
    }
}

impl fmt::Debug for JobTransaction<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("JobTransaction").finish_non_exhaustive()
    }
}

/// Commits the effects of a job together with its ending, for tasks that return [`Done`]. Their
/// effects happen once, even if a process crashes. The transaction of rusqlite is not `Send`, so
/// these are synchronous functions, for `#[task(blocking)]` and `spawn_blocking`.
///
/// ```no_run
/// use queue_core::prelude::*;
/// use queue_outbox::{Done, Outbox, sqlite::Commit};
///
/// #[task(blocking)]
/// fn pay(order: i64, outbox: Data<Outbox>, ctx: JobContext) -> Result<Done<()>, queue_outbox::Error> {
///     let mut connection = rusqlite::Connection::open("shop.db")?;
///     let tx = ctx.begin(&outbox, &mut connection)?;
///     tx.execute("UPDATE accounts SET balance = balance - 10 WHERE id = ?1", [order])?;
///     ctx.commit(tx, ())
/// }
/// ```
pub trait Commit {
    /// Begins a write transaction (`BEGIN IMMEDIATE`). Execute in it the statements whose effects
    /// happen once, but no statement that ends it.
    ///
    /// # Errors
    /// [`Error::OtherDatabase`] for an outbox of PostgreSQL; [`Error::Synchronous`],
    /// [`Error::Attached`]; [`Error::Sqlite`].
    fn begin<'c>(&self, outbox: &Outbox, connection: &'c mut Connection) -> Result<JobTransaction<'c>>;

    /// Commits the effects and the ending: the job is done with this result. The handle of the job
    /// returns the result if the job is kept.
    ///
    /// # Errors
    /// [`Error::OtherTask`], [`Error::NotOfWorker`], [`Error::CommittedTwice`],
    /// [`Error::LeaseLost`], [`Error::CommittedElsewhere`], [`Error::OtherDatabase`],
    /// [`Error::TooNew`], [`Error::NoTables`], [`Error::Ended`], [`Error::Attached`]: the
    /// transaction is rolled back. After [`Error::Sqlite`] it may have committed. Return the error
    /// from the task: the worker looks up whether the job has committed.
    fn commit<T: Serialize + DeserializeOwned>(&self, tx: JobTransaction<'_>, result: T) -> Result<Done<T>>;

    /// Commits the effects of this round of the job. The next one starts after this time, as with
    /// [`Outcome::Repeat`](queue_core::Outcome::Repeat).
    ///
    /// # Errors
    /// Those of [`commit`](Self::commit).
    fn commit_and_repeat<T>(&self, tx: JobTransaction<'_>, delay: Duration) -> Result<Done<T>>;
}

impl Commit for JobContext {
    fn begin<'c>(&self, outbox: &Outbox, connection: &'c mut Connection) -> Result<JobTransaction<'c>> {
        outbox.is_in(Dialect::Sqlite)?;
        let synchronous: i64 = connection.query_row("PRAGMA main.synchronous", (), |row| row.get(0))?;
        adapter::check_synchronous(outbox, synchronous)?;
        no_attached_file(connection)?;
        let tx = connection.transaction_with_behavior(TransactionBehavior::Immediate)?;
        Ok(JobTransaction { tx, outbox: outbox.clone() })
    }

    fn commit<T: Serialize + DeserializeOwned>(&self, tx: JobTransaction<'_>, result: T) -> Result<Done<T>> {
        commit(self, tx, |completion| completion.done(self, &result))
    }

    fn commit_and_repeat<T>(&self, tx: JobTransaction<'_>, delay: Duration) -> Result<Done<T>> {
        commit(self, tx, |completion| completion.repeat(self, delay))
    }
}

fn no_attached_file(connection: &Connection) -> Result<()> {
    let attached = connection.query_row(adapter::ATTACHED_SQL, (), |row| Ok((row.get(0)?, row.get(1)?))).optional()?;
    attached.map_or(Ok(()), |(name, file)| Err(Error::Attached { name, file }))
}

fn commit<T>(context: &JobContext, tx: JobTransaction<'_>, ending: impl FnOnce(&Completion) -> StoredEnding) -> Result<Done<T>> {
    let JobTransaction { tx, outbox } = tx;
    let committing = Committing::new(context, &outbox, ending)?;
    if tx.is_autocommit() {
        return Err(committing.ended());
    }
    // A file can be attached within a transaction.
    no_attached_file(&tx)?;
    let (database, key, ending, before) = (outbox.database(), committing.key(), committing.ending(), committing.before());
    let stored = tx.execute(&adapter::commit_sql(&outbox, &committing), params![database, VERSION, Null, key, ending, before]);
    match stored {
        Ok(1) => {}
        Ok(_) => {
            let (id, version) = super::database(&tx)?;
            return Err(committing.why_not(&outbox, &id, version, None, None));
        }
        Err(error) if error.sqlite_error_code() == Some(ErrorCode::ConstraintViolation) => return Err(committing.lost_race()),
        Err(error) => return Err(with_tables(error)),
    }
    tx.commit()?;
    Ok(committing.acknowledged())
}
