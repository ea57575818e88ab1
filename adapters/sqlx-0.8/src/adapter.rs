//! The common code for both databases. It is compiled once for each: `super` has its types and its
//! statements.

use std::{
    fmt,
    ops::{Deref, DerefMut},
    time::Duration,
};

use queue_core::{Done, Event, JobAddress, JobContext, __private::row::Outgoing};
use queue_outbox::{
    Error, Outbox, Result, VERSION,
    adapter::{self, Committing},
};
use serde::{Serialize, de::DeserializeOwned};
use sqlx::{Acquire, Database, Pool, Transaction};

use super::{BEGIN, DIALECT, Db, begun, insert, insert_many, is_missing_table, may_commit};
use crate::text;

pub(super) async fn open(pool: &Pool<Db>, schema: &str) -> Result<Outbox> {
    let sql = DIALECT.database_sql(schema)?;
    let found: Option<(Vec<u8>, i32)> = sqlx::query_as(text(&sql)).fetch_optional(pool).await.map_err(failed)?;
    let (id, version) = found.ok_or_else(|| adapter::no_row(DIALECT))?;
    Outbox::with_database(DIALECT, schema, id, version)
}

/// Stores a job in an outbox: a `Job`, a `RawJob`, or a `Publication`.
pub trait EnqueueIn: Outgoing + Send + Sized {
    /// Stores it in the transaction. If the transaction rolls back, it is never enqueued. If it
    /// commits, a relay submits it until the broker has answered.
    ///
    /// # Errors
    /// [`Error::Queue`] for a job that cannot be enqueued; [`Error::OtherDatabase`],
    /// [`Error::Full`], [`Error::NoTables`], [`Error::TooNew`]; [`Error::Database`]. Roll the
    /// transaction back, or the data is stored without the job.
    fn enqueue_in(self, outbox: &Outbox, tx: &mut Transaction<'_, Db>) -> impl Future<Output = Result<JobAddress>> + Send;
}

impl<J: Outgoing + Send> EnqueueIn for J {
    async fn enqueue_in(self, outbox: &Outbox, tx: &mut Transaction<'_, Db>) -> Result<JobAddress> {
        outbox.is_in(DIALECT)?;
        let prepared = outbox.prepare(self);
        let row = prepared?;
        insert(outbox, tx, &row).await?;
        Ok(row.address)
    }
}

/// Stores an event in an outbox.
pub trait PublishIn: Event + Sized {
    /// Stores it in the transaction. If the transaction rolls back, it is never published. An event
    /// with options is stored by [`enqueue_in`](EnqueueIn::enqueue_in) of its `Publication`.
    ///
    /// # Errors
    /// Those of [`enqueue_in`](EnqueueIn::enqueue_in).
    fn publish_in(self, outbox: &Outbox, tx: &mut Transaction<'_, Db>) -> impl Future<Output = Result<JobAddress>> + Send {
        self.event().enqueue_in(outbox, tx)
    }
}

impl<E: Event> PublishIn for E {}

/// Stores many jobs in an outbox.
pub trait EnqueueAllIn: Sized {
    /// Stores them in the transaction, in PostgreSQL with one statement for up to 1,000. If one of
    /// them cannot be enqueued, none is inserted.
    ///
    /// # Errors
    /// Those of [`enqueue_in`](EnqueueIn::enqueue_in).
    fn enqueue_all_in(self, outbox: &Outbox, tx: &mut Transaction<'_, Db>) -> impl Future<Output = Result<Vec<JobAddress>>> + Send;
}

impl<I: IntoIterator<Item: Outgoing>> EnqueueAllIn for I {
    fn enqueue_all_in(self, outbox: &Outbox, tx: &mut Transaction<'_, Db>) -> impl Future<Output = Result<Vec<JobAddress>>> + Send {
        // Before the first await: the iterator need not be `Send`.
        let rows = outbox.is_in(DIALECT).and_then(|()| self.into_iter().map(|job| outbox.prepare(job)).collect::<Result<Vec<_>>>());
        async move {
            let rows = rows?;
            // A savepoint: all or none are inserted, even if the caller commits after an error. It
            // is rolled back when it is dropped.
            let mut savepoint = Acquire::begin(&mut *tx).await.map_err(failed)?;
            for piece in adapter::pieces(&rows) {
                insert_many(outbox, &mut savepoint, piece).await?;
            }
            savepoint.commit().await.map_err(failed)?;
            Ok(rows.into_iter().map(|row| row.address).collect())
        }
    }
}

/// The transaction of a run, from [`begin`](Commit::begin). It dereferences to the transaction of
/// sqlx: execute with `&mut **tx`. It is rolled back when it is dropped.
pub struct JobTransaction {
    tx: Transaction<'static, Db>,
    outbox: Outbox,
    /// The number of the transaction, if the database has one.
    number: Option<String>,
}

impl Deref for JobTransaction {
    type Target = Transaction<'static, Db>;

    fn deref(&self) -> &Self::Target {
        &self.tx
    }
}

impl DerefMut for JobTransaction {
    fn deref_mut(&mut self) -> &mut Self::Target {
        &mut self.tx
    }
}

impl fmt::Debug for JobTransaction {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("JobTransaction").field("number", &self.number).finish_non_exhaustive()
    }
}

/// Commits the effects of a job together with its ending, for tasks that return [`Done`]. Their
/// effects happen once, even if a process crashes. The module has an example.
pub trait Commit {
    /// Begins the transaction, in SQLite with `BEGIN IMMEDIATE`. Execute in it the statements whose
    /// effects happen once, but no statement that ends it.
    ///
    /// # Errors
    /// [`Error::OtherDatabase`] for an outbox of another kind of database; in SQLite
    /// [`Error::Synchronous`], [`Error::Attached`]; [`Error::Database`].
    fn begin(&self, outbox: &Outbox, pool: &Pool<Db>) -> impl Future<Output = Result<JobTransaction>> + Send;

    /// The same with another statement, such as `BEGIN ISOLATION LEVEL SERIALIZABLE` in PostgreSQL.
    /// `REPEATABLE READ` and `SERIALIZABLE` add serialization failures (SQLSTATE 40001): begin
    /// again in the task, or return the error to have the job retried. In SQLite, the transaction
    /// reads at once. If it is not `IMMEDIATE`, its first write fails with `SQLITE_BUSY_SNAPSHOT`
    /// if another connection has written in the meantime.
    ///
    /// # Errors
    /// Those of [`begin`](Self::begin).
    fn begin_with(&self, outbox: &Outbox, pool: &Pool<Db>, statement: &'static str) -> impl Future<Output = Result<JobTransaction>> + Send;

    /// Commits the effects and the ending: the job is done with this result. The handle of the job
    /// returns the result if the job is kept.
    ///
    /// # Errors
    /// [`Error::OtherTask`], [`Error::NotOfWorker`], [`Error::CommittedTwice`],
    /// [`Error::LeaseLost`], [`Error::CommittedElsewhere`], [`Error::OtherDatabase`],
    /// [`Error::TooNew`], [`Error::NoTables`], [`Error::Ended`], [`Error::Attached`]: the
    /// transaction is rolled back. After [`Error::Database`] it may have committed. Return the
    /// error from the task: the worker looks up whether the job has committed.
    fn commit<T: Serialize + DeserializeOwned + Send>(&self, tx: JobTransaction, result: T)
    -> impl Future<Output = Result<Done<T>>> + Send;

    /// Commits the effects of this round of the job. The next one starts after this time, as with
    /// `Outcome::Repeat`.
    ///
    /// # Errors
    /// Those of [`commit`](Self::commit).
    fn commit_and_repeat<T>(&self, tx: JobTransaction, delay: Duration) -> impl Future<Output = Result<Done<T>>> + Send;
}

impl Commit for JobContext {
    async fn begin(&self, outbox: &Outbox, pool: &Pool<Db>) -> Result<JobTransaction> {
        self.begin_with(outbox, pool, BEGIN).await
    }

    async fn begin_with(&self, outbox: &Outbox, pool: &Pool<Db>, statement: &'static str) -> Result<JobTransaction> {
        outbox.is_in(DIALECT)?;
        let mut tx = pool.begin_with(statement).await.map_err(failed)?;
        let number = begun(outbox, &mut tx).await?;
        Ok(JobTransaction { tx, outbox: outbox.clone(), number })
    }

    fn commit<T: Serialize + DeserializeOwned + Send>(
        &self,
        tx: JobTransaction,
        result: T,
    ) -> impl Future<Output = Result<Done<T>>> + Send {
        let committing = Committing::new(self, &tx.outbox, |completion| completion.done(self, &result));
        async { commit(committing?, tx).await }
    }

    fn commit_and_repeat<T>(&self, tx: JobTransaction, delay: Duration) -> impl Future<Output = Result<Done<T>>> + Send {
        let committing = Committing::new(self, &tx.outbox, |completion| completion.repeat(self, delay));
        async { commit(committing?, tx).await }
    }
}

async fn commit<T>(committing: Committing<'_>, tx: JobTransaction) -> Result<Done<T>> {
    let JobTransaction { mut tx, outbox, number } = tx;
    may_commit(&committing, &mut tx).await?;
    let sql = adapter::commit_sql(&outbox, &committing);
    let insert = sqlx::query(text(&sql)).bind(outbox.database()).bind(VERSION).bind(number.as_deref());
    let insert = insert.bind(committing.key()).bind(committing.ending()).bind(committing.before());
    let inserted = insert.execute(&mut *tx).await.map_err(|error| match error.as_database_error() {
        Some(cause) if cause.is_unique_violation() => committing.lost_race(),
        _ => failed(error),
    })?;
    if inserted.rows_affected() == 0 {
        let found: Option<(Vec<u8>, i32, Option<String>)> =
            sqlx::query_as(text(&adapter::why_no_commit_sql(&outbox))).fetch_optional(&mut *tx).await.map_err(failed)?;
        let (id, version, now) = found.ok_or_else(|| adapter::no_row(DIALECT))?;
        return Err(committing.why_not(&outbox, &id, version, number.as_deref(), now.as_deref()));
    }
    tx.commit().await.map_err(failed)?;
    Ok(committing.acknowledged())
}

/// The connection of a transaction.
pub(super) type Connection = <Db as Database>::Connection;

/// A missing table has a separate error.
pub(super) fn failed(error: sqlx::Error) -> Error {
    match error.as_database_error() {
        Some(cause) if is_missing_table(cause) => adapter::no_tables(DIALECT, cause.message()),
        _ => Error::Database(Box::new(error)),
    }
}
