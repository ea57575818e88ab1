//! Effects that commit together with the ending of their job, with tokio-postgres.

use std::{
    fmt,
    ops::{Deref, DerefMut},
    time::Duration,
};

use queue_core::{Done, JobContext};
use serde::{Serialize, de::DeserializeOwned};
use tokio_postgres::{
    Client, IsolationLevel, Transaction, TransactionBuilder,
    error::SqlState,
    types::{ToSql, Type},
};

use super::with_tables;
use crate::{
    Outbox,
    adapter::{self, Committing},
    dialect::{Dialect, VERSION},
    error::{Error, Result},
};

/// The transaction of a run, from [`begin`](Commit::begin). It dereferences to the transaction of
/// tokio-postgres. It is rolled back when it is dropped.
pub struct JobTransaction<'a> {
    tx: Transaction<'a>,
    outbox: Outbox,
    /// The id of the transaction.
    number: String,
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
        f.debug_struct("JobTransaction").field("number", &self.number).finish_non_exhaustive()
    }
}

/// Commits the effects of a job together with its ending, for tasks that return [`Done`]. Their
/// effects happen once, even if a process crashes.
///
/// ```no_run
/// use queue_core::prelude::*;
/// use queue_outbox::{Done, Outbox, postgres::Commit};
/// # type Pool = tokio::sync::Mutex<tokio_postgres::Client>;
///
/// #[task]
/// async fn pay(order: i64, outbox: Data<Outbox>, pool: Data<Pool>, ctx: JobContext) -> Result<Done<()>, queue_outbox::Error> {
///     let mut client = pool.lock().await;
///     let tx = ctx.begin(&outbox, &mut client).await?;
///     tx.execute("UPDATE accounts SET balance = balance - 10 WHERE id = $1", &[&order]).await?;
///     ctx.commit(tx, ()).await
/// }
/// ```
///
/// A nested transaction is only a savepoint, whose effects may still be rolled back. It does not
/// compile:
///
/// ```compile_fail,E0308
/// # use queue_core::JobContext;
/// # use queue_outbox::{Done, Outbox, postgres::Commit};
/// # async fn example(ctx: JobContext, outbox: Outbox, mut client: tokio_postgres::Client) -> Result<Done<()>, queue_outbox::Error> {
/// let mut tx = ctx.begin(&outbox, &mut client).await?;
/// let nested = tx.transaction().await?;
/// ctx.commit(nested, ()).await
/// # }
/// ```
pub trait Commit {
    /// Begins the transaction. Execute in it the statements whose effects happen once, but no
    /// statement that ends it.
    ///
    /// # Errors
    /// [`Error::OtherDatabase`] for an outbox of SQLite; [`Error::Postgres`].
    fn begin<'c>(&self, outbox: &Outbox, client: &'c mut Client) -> impl Future<Output = Result<JobTransaction<'c>>> + Send;

    /// The same with another isolation level than `default_transaction_isolation`.
    /// `REPEATABLE READ` and `SERIALIZABLE` add serialization failures (SQLSTATE 40001): begin
    /// again in the task, or return the error to have the job retried.
    ///
    /// # Errors
    /// Those of [`begin`](Self::begin).
    fn begin_with<'c>(
        &self,
        outbox: &Outbox,
        client: &'c mut Client,
        isolation: IsolationLevel,
    ) -> impl Future<Output = Result<JobTransaction<'c>>> + Send;

    /// Commits the effects and the ending: the job is done with this result. The handle of the job
    /// returns the result if the job is kept.
    ///
    /// # Errors
    /// [`Error::OtherTask`], [`Error::NotOfWorker`], [`Error::CommittedTwice`],
    /// [`Error::LeaseLost`], [`Error::CommittedElsewhere`], [`Error::OtherDatabase`],
    /// [`Error::TooNew`], [`Error::NoTables`], [`Error::Ended`]: the transaction is rolled back.
    /// After [`Error::Postgres`] it may have committed. Return the error from the task: the worker
    /// looks up whether the job has committed.
    fn commit<T: Serialize + DeserializeOwned + Send>(
        &self,
        tx: JobTransaction<'_>,
        result: T,
    ) -> impl Future<Output = Result<Done<T>>> + Send;

    /// Commits the effects of this round of the job. The next one starts after this time, as with
    /// [`Outcome::Repeat`](queue_core::Outcome::Repeat).
    ///
    /// # Errors
    /// Those of [`commit`](Self::commit).
    fn commit_and_repeat<T>(&self, tx: JobTransaction<'_>, delay: Duration) -> impl Future<Output = Result<Done<T>>> + Send;
}

impl Commit for JobContext {
    async fn begin<'c>(&self, outbox: &Outbox, client: &'c mut Client) -> Result<JobTransaction<'c>> {
        begun(outbox, client.build_transaction()).await
    }

    async fn begin_with<'c>(&self, outbox: &Outbox, client: &'c mut Client, isolation: IsolationLevel) -> Result<JobTransaction<'c>> {
        begun(outbox, client.build_transaction().isolation_level(isolation)).await
    }

    fn commit<T: Serialize + DeserializeOwned + Send>(
        &self,
        tx: JobTransaction<'_>,
        result: T,
    ) -> impl Future<Output = Result<Done<T>>> + Send {
        let committing = Committing::new(self, &tx.outbox, |completion| completion.done(self, &result));
        async { commit(committing?, tx).await }
    }

    fn commit_and_repeat<T>(&self, tx: JobTransaction<'_>, delay: Duration) -> impl Future<Output = Result<Done<T>>> + Send {
        let committing = Committing::new(self, &tx.outbox, |completion| completion.repeat(self, delay));
        async { commit(committing?, tx).await }
    }
}

async fn begun<'c>(outbox: &Outbox, builder: TransactionBuilder<'c>) -> Result<JobTransaction<'c>> {
    outbox.is_in(Dialect::Postgres)?;
    let tx = builder.start().await?;
    let begun = tx.query_typed_opt(&adapter::begun_sql(outbox), &[]).await?;
    let number = begun.map(|begun| begun.try_get(0)).transpose()?.unwrap_or_default();
    Ok(JobTransaction { tx, outbox: outbox.clone(), number })
}

async fn commit<T>(committing: Committing<'_>, tx: JobTransaction<'_>) -> Result<Done<T>> {
    let JobTransaction { tx, outbox, number } = tx;
    let (database, key, ending, before) = (outbox.database(), committing.key(), committing.ending(), committing.before());
    let values: [(&(dyn ToSql + Sync), Type); 6] = [
        (&database, Type::BYTEA),
        (&VERSION, Type::INT4),
        (&number, Type::TEXT),
        (&key, Type::BYTEA),
        (&ending, Type::BYTEA),
        (&before, Type::BYTEA),
    ];
    let inserted =
        tx.execute_typed(&adapter::commit_sql(&outbox, &committing), &values).await.map_err(|error| match error.as_db_error() {
            Some(cause) if *cause.code() == SqlState::UNIQUE_VIOLATION => committing.lost_race(),
            _ => with_tables(error),
        })?;
    if inserted == 0 {
        return Err(why_not(&committing, &outbox, &tx, &number).await);
    }
    tx.commit().await?;
    Ok(committing.acknowledged())
}

/// The reason why no row was inserted or replaced.
async fn why_not(committing: &Committing<'_>, outbox: &Outbox, tx: &Transaction<'_>, number: &str) -> Error {
    let found = match tx.query_typed_opt(&adapter::why_no_commit_sql(outbox), &[]).await {
        Ok(Some(found)) => found,
        Ok(None) => return adapter::no_row(Dialect::Postgres),
        Err(error) => return with_tables(error),
    };
    let read = || -> Result<Error, tokio_postgres::Error> {
        let (id, version, now): (Vec<u8>, i32, String) = (found.try_get(0)?, found.try_get(1)?, found.try_get(2)?);
        Ok(committing.why_not(outbox, &id, version, Some(number), Some(&now)))
    };
    read().unwrap_or_else(Error::Postgres)
}
