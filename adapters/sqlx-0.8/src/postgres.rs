//! An outbox in PostgreSQL.
//!
//! A task whose effects happen once:
//!
//! ```no_run
//! use queue_core::prelude::*;
//! use queue_outbox_sqlx::{Done, Error, Outbox, postgres::Commit};
//! use sqlx::PgPool;
//!
//! #[task]
//! async fn pay(order: i64, outbox: Data<Outbox>, pool: Data<PgPool>, ctx: JobContext) -> Result<Done<()>, Error> {
//!     let mut tx = ctx.begin(&outbox, &pool).await?;
//!     let pay = sqlx::query("UPDATE accounts SET balance = balance - 10 WHERE id = $1").bind(order);
//!     pay.execute(&mut **tx).await.map_err(|error| Error::Database(error.into()))?;
//!     ctx.commit(tx, ()).await
//! }
//! ```
//!
//! A nested transaction is only a savepoint, whose effects may still be rolled back. It does not
//! compile:
//!
//! ```compile_fail,E0308
//! # use queue_core::JobContext;
//! # use queue_outbox_sqlx::{Done, Error, Outbox, postgres::Commit};
//! # async fn example(ctx: JobContext, outbox: Outbox, pool: sqlx::PgPool) -> Result<Done<()>, Error> {
//! let mut tx = ctx.begin(&outbox, &pool).await?;
//! let nested = sqlx::Acquire::begin(&mut **tx).await.unwrap();
//! ctx.commit(nested, ()).await
//! # }
//! ```

#[path = "adapter.rs"]
mod adapter;

use queue_outbox::{
    Dialect, Error, Outbox, Prepared, Result, VERSION,
    adapter::{Committing, begun_sql, no_row, why_not_sql},
};
use sqlx::{PgPool, error::DatabaseError};

pub use self::adapter::{Commit, EnqueueAllIn, EnqueueIn, JobTransaction, PublishIn};
use self::adapter::{Connection, failed};
use crate::text;

type Db = sqlx::Postgres;

const DIALECT: Dialect = Dialect::Postgres;
const BEGIN: &str = "BEGIN";

/// Opens the outbox in the schema `public` of this database.
///
/// # Errors
/// [`Error::NoTables`], [`Error::TooNew`], [`Error::Database`].
pub async fn open(pool: &PgPool) -> Result<Outbox> {
    open_in(pool, "public").await
}

/// Opens the outbox in a schema of this database.
///
/// # Errors
/// The same, and [`Error::Invalid`] for an invalid name of a schema.
pub async fn open_in(pool: &PgPool, schema: &str) -> Result<Outbox> {
    adapter::open(pool, schema).await
}

/// Wakes the relays of all processes, after a commit. It wakes those of this process at once, and
/// those of others with `pg_notify`, at most every 10 ms. It does not report errors: without it, an
/// idle relay finds the rows at its next poll, after 0.75 to 1.25 s.
pub async fn notify(outbox: &Outbox, pool: &PgPool) {
    outbox.wake();
    if let Some(sql) = outbox.notify_sql().filter(|_| outbox.may_notify()) {
        let _ = sqlx::query(text(sql)).execute(pool).await;
    }
}

async fn insert(outbox: &Outbox, tx: &mut Connection, row: &Prepared) -> Result<()> {
    let insert = sqlx::query(text(outbox.insert_sql())).bind(outbox.database()).bind(VERSION);
    let insert = insert.bind(&row.id).bind(&row.queue).bind(&row.group_digest).bind(&row.body);
    let inserted = insert.execute(&mut *tx).await.map_err(failed)?;
    if inserted.rows_affected() == 1 { Ok(()) } else { Err(why_not(outbox, tx, &[&row.queue]).await) }
}

async fn insert_many(outbox: &Outbox, tx: &mut Connection, rows: &[Prepared]) -> Result<()> {
    let ids: Vec<&[u8]> = rows.iter().map(|row| row.id.as_slice()).collect();
    let queues: Vec<&str> = rows.iter().map(|row| row.queue.as_str()).collect();
    let groups: Vec<Option<&[u8]>> = rows.iter().map(|row| row.group_digest.as_deref()).collect();
    let bodies: Vec<&[u8]> = rows.iter().map(|row| row.body.as_slice()).collect();
    let insert = sqlx::query(text(outbox.insert_many_sql().unwrap_or_default())).bind(outbox.database()).bind(VERSION);
    let inserted = insert.bind(ids).bind(&queues).bind(groups).bind(bodies).execute(&mut *tx).await.map_err(failed)?;
    if inserted.rows_affected() == rows.len() as u64 { Ok(()) } else { Err(why_not(outbox, tx, &queues).await) }
}

async fn why_not(outbox: &Outbox, tx: &mut Connection, queues: &[&str]) -> Error {
    match sqlx::query_as::<_, (Vec<u8>, i32, Vec<String>)>(text(&why_not_sql(outbox))).fetch_optional(&mut *tx).await {
        Ok(Some((id, version, full))) => queue_outbox::adapter::why_not(outbox, &id, version, &full, queues),
        Ok(None) => no_row(DIALECT),
        Err(error) => failed(error),
    }
}

/// The number of a transaction that has just begun.
async fn begun(outbox: &Outbox, tx: &mut Connection) -> Result<Option<String>> {
    let begun = sqlx::query_scalar(text(&begun_sql(outbox))).fetch_one(&mut *tx).await;
    begun.map(Some).map_err(failed)
}

/// The number of the transaction shows whether a statement has ended it.
async fn may_commit(_: &Committing<'_>, _: &mut Connection) -> Result<()> {
    Ok(())
}

fn is_missing_table(cause: &dyn DatabaseError) -> bool {
    cause.code().as_deref() == Some("42P01")
}
