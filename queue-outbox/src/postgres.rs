//! An outbox in PostgreSQL, with tokio-postgres.
//!
//! ```no_run
//! use queue_core::prelude::*;
//! use queue_outbox::{Outbox, postgres::EnqueueIn};
//!
//! #[task]
//! async fn send_receipt(order: i64) {}
//!
//! # async fn example(client: &mut tokio_postgres::Client) -> Result<(), Box<dyn std::error::Error>> {
//! let outbox = Outbox::postgres(client).await?;
//!
//! let tx = client.transaction().await?;
//! let order: i64 = tx.query_one("INSERT INTO orders DEFAULT VALUES RETURNING id", &[]).await?.get(0);
//! send_receipt::job(order).enqueue_in(&outbox, &tx).await?;
//! tx.commit().await?;
//! outbox.notify(client).await;
//! # Ok(()) }
//! ```

mod commit;
pub(crate) mod store;
#[cfg(feature = "tls")]
mod tls;
mod url;

use queue_core::{__private::row::Outgoing, Event, JobAddress};
use tokio_postgres::{
    Client, Transaction,
    error::SqlState,
    types::{ToSql, Type},
};

pub use self::commit::{Commit, JobTransaction};
use crate::{
    Outbox, Prepared,
    adapter::{self, pieces},
    dialect::{Dialect, VERSION},
    error::{Error, Result},
};

impl Outbox {
    /// Opens the outbox in the schema `public` of this database.
    ///
    /// # Errors
    /// [`Error::NoTables`], [`Error::TooNew`], [`Error::Postgres`].
    pub async fn postgres(client: &Client) -> Result<Outbox> {
        Outbox::postgres_in(client, "public").await
    }

    /// Opens the outbox in a schema of this database.
    ///
    /// # Errors
    /// The same, and [`Error::Invalid`] for an invalid name of a schema.
    pub async fn postgres_in(client: &Client, schema: &str) -> Result<Outbox> {
        let found = client.query_typed_opt(&Dialect::Postgres.database_sql(schema)?, &[]).await.map_err(with_tables)?;
        let found = found.ok_or_else(|| adapter::no_row(Dialect::Postgres))?;
        Outbox::with_database(Dialect::Postgres, schema, found.try_get(0)?, found.try_get(1)?)
    }

    /// Wakes the relays of all processes, after a commit. It wakes those of this process at once,
    /// and those of others with `pg_notify`, at most every 10 ms. It does not report errors:
    /// without it, an idle relay finds the rows at its next poll, after 0.75 to 1.25 s.
    pub async fn notify(&self, client: &Client) {
        self.wake();
        let Some(sql) = self.notify_sql().filter(|_| self.may_notify()) else { return };
        if let Err(error) = client.batch_execute(sql).await {
            tracing::debug!(%error, "the relays of other processes were not woken");
        }
    }
}

/// Stores a job in an outbox: a [`Job`](queue_core::Job), a [`RawJob`](queue_core::RawJob), or a
/// [`Publication`](queue_core::topics::Publication).
pub trait EnqueueIn: Outgoing + Send + Sized {
    /// Stores it in the transaction. If the transaction rolls back, it is never enqueued. If it
    /// commits, a relay submits it until the broker has answered.
    ///
    /// # Errors
    /// [`Error::Queue`] for a job that cannot be enqueued; [`Error::OtherDatabase`],
    /// [`Error::Full`], [`Error::NoTables`], [`Error::TooNew`]; [`Error::Postgres`]. Roll the
    /// transaction back, or the data is stored without the job.
    fn enqueue_in(self, outbox: &Outbox, tx: &Transaction<'_>) -> impl Future<Output = Result<JobAddress>> + Send;
}

impl<J: Outgoing + Send> EnqueueIn for J {
    async fn enqueue_in(self, outbox: &Outbox, tx: &Transaction<'_>) -> Result<JobAddress> {
        outbox.is_in(Dialect::Postgres)?;
        let prepared = outbox.prepare(self);
        let row = prepared?;
        insert(outbox, tx, &row).await?;
        Ok(row.address)
    }
}

/// Stores an event in an outbox.
pub trait PublishIn: Event + Sized {
    /// Stores it in the transaction. If the transaction rolls back, it is never published. An event
    /// with options is stored by [`enqueue_in`](EnqueueIn::enqueue_in) of its
    /// [`Publication`](queue_core::topics::Publication).
    ///
    /// # Errors
    /// Those of [`enqueue_in`](EnqueueIn::enqueue_in).
    fn publish_in(self, outbox: &Outbox, tx: &Transaction<'_>) -> impl Future<Output = Result<JobAddress>> + Send {
        self.event().enqueue_in(outbox, tx)
    }
}

impl<E: Event> PublishIn for E {}

/// Stores many jobs in an outbox.
pub trait EnqueueAllIn: Sized {
    /// Stores them in the transaction, with one statement for up to 1,000. If one of them cannot be
    /// enqueued, none is inserted.
    ///
    /// # Errors
    /// Those of [`enqueue_in`](EnqueueIn::enqueue_in).
    fn enqueue_all_in(self, outbox: &Outbox, tx: &Transaction<'_>) -> impl Future<Output = Result<Vec<JobAddress>>> + Send;
}

impl<I: IntoIterator<Item: Outgoing>> EnqueueAllIn for I {
    fn enqueue_all_in(self, outbox: &Outbox, tx: &Transaction<'_>) -> impl Future<Output = Result<Vec<JobAddress>>> + Send {
        // Before the first await: the iterator need not be `Send`.
        let rows =
            outbox.is_in(Dialect::Postgres).and_then(|()| self.into_iter().map(|job| outbox.prepare(job)).collect::<Result<Vec<_>>>());
        async move {
            let rows = rows?;
            match pieces(&rows).as_slice() {
                [] => {}
                [piece] => insert_many(outbox, tx, piece).await?,
                pieces => {
                    // All or none are inserted, even if the caller commits after an error.
                    tx.batch_execute("SAVEPOINT queue_outbox").await?;
                    for piece in pieces {
                        if let Err(error) = insert_many(outbox, tx, piece).await {
                            tx.batch_execute("ROLLBACK TO queue_outbox").await?;
                            return Err(error);
                        }
                    }
                    tx.batch_execute("RELEASE queue_outbox").await?;
                }
            }
            Ok(rows.into_iter().map(|row| row.address).collect())
        }
    }
}

async fn insert(outbox: &Outbox, tx: &Transaction<'_>, row: &Prepared) -> Result<()> {
    let database = outbox.database();
    let values: [(&(dyn ToSql + Sync), Type); 6] = [
        (&database, Type::BYTEA),
        (&VERSION, Type::INT4),
        (&row.id, Type::BYTEA),
        (&row.queue, Type::TEXT),
        (&row.group_digest, Type::BYTEA),
        (&row.body, Type::BYTEA),
    ];
    let inserted = tx.execute_typed(outbox.insert_sql(), &values).await.map_err(with_tables)?;
    if inserted == 0 { Err(why_not(outbox, tx, &[&row.queue]).await) } else { Ok(()) }
}

async fn insert_many(outbox: &Outbox, tx: &Transaction<'_>, rows: &[Prepared]) -> Result<()> {
    let database = outbox.database();
    let ids: Vec<&[u8]> = rows.iter().map(|row| row.id.as_slice()).collect();
    let queues: Vec<&str> = rows.iter().map(|row| row.queue.as_str()).collect();
    let groups: Vec<Option<&[u8]>> = rows.iter().map(|row| row.group_digest.as_deref()).collect();
    let bodies: Vec<&[u8]> = rows.iter().map(|row| row.body.as_slice()).collect();
    let values: [(&(dyn ToSql + Sync), Type); 6] = [
        (&database, Type::BYTEA),
        (&VERSION, Type::INT4),
        (&ids, Type::BYTEA_ARRAY),
        (&queues, Type::TEXT_ARRAY),
        (&groups, Type::BYTEA_ARRAY),
        (&bodies, Type::BYTEA_ARRAY),
    ];
    let inserted = tx.execute_typed(outbox.insert_many_sql().unwrap_or_default(), &values).await.map_err(with_tables)?;
    if inserted == rows.len() as u64 { Ok(()) } else { Err(why_not(outbox, tx, &queues).await) }
}

async fn why_not(outbox: &Outbox, tx: &Transaction<'_>, queues: &[&str]) -> Error {
    let found = match tx.query_typed_opt(&adapter::why_not_sql(outbox), &[]).await {
        Ok(Some(found)) => found,
        Ok(None) => return adapter::no_row(Dialect::Postgres),
        Err(error) => return with_tables(error),
    };
    let read = || -> Result<Error, tokio_postgres::Error> {
        let (id, version, full): (Vec<u8>, i32, Vec<String>) = (found.try_get(0)?, found.try_get(1)?, found.try_get(2)?);
        Ok(adapter::why_not(outbox, &id, version, &full, queues))
    };
    read().unwrap_or_else(Error::Postgres)
}

/// A missing table and hidden rows have separate errors.
fn with_tables(error: tokio_postgres::Error) -> Error {
    match error.as_db_error() {
        Some(cause) if *cause.code() == SqlState::UNDEFINED_TABLE => adapter::no_tables(Dialect::Postgres, cause.message()),
        Some(cause) if cause.routine() == Some("check_enable_rls") => Error::RowSecurity { problem: cause.message().to_owned() },
        _ => Error::Postgres(error),
    }
}
