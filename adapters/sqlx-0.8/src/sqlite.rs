//! An outbox in a SQLite file. Begin a transaction with `pool.begin_with("BEGIN IMMEDIATE")`. A
//! transaction that reads first and writes later fails with `SQLITE_BUSY_SNAPSHOT` if another
//! connection, such as the relay's, has written in between.
//!
//! A task whose effects happen once:
//!
//! ```no_run
//! use queue_core::prelude::*;
//! use queue_outbox_sqlx::{Done, Error, Outbox, sqlite::Commit};
//! use sqlx::SqlitePool;
//!
//! #[task]
//! async fn pay(order: i64, outbox: Data<Outbox>, pool: Data<SqlitePool>, ctx: JobContext) -> Result<Done<()>, Error> {
//!     let mut tx = ctx.begin(&outbox, &pool).await?;
//!     let pay = sqlx::query("UPDATE accounts SET balance = balance - 10 WHERE id = ?1").bind(order);
//!     pay.execute(&mut **tx).await.map_err(|error| Error::Database(error.into()))?;
//!     ctx.commit(tx, ()).await
//! }
//! ```

#[path = "adapter.rs"]
mod adapter;

use queue_outbox::{
    Dialect, Error, Outbox, Prepared, Result, VERSION,
    adapter::{ATTACHED_SQL, Committing, VERSION_SQL, check_synchronous, no_row, warn_of_wal_reset_bug},
};
use sqlx::{SqlitePool, error::DatabaseError};

pub use self::adapter::{Commit, EnqueueAllIn, EnqueueIn, JobTransaction, PublishIn};
use self::adapter::{Connection, failed};
use crate::text;

type Db = sqlx::Sqlite;

const DIALECT: Dialect = Dialect::Sqlite;
const BEGIN: &str = "BEGIN IMMEDIATE";

/// Opens the outbox in the main database of this pool. If the linked SQLite has the [WAL-reset
/// bug](https://sqlite.org/wal.html#walresetbug), it logs one warning.
///
/// # Errors
/// [`Error::NoTables`], [`Error::TooNew`], [`Error::Database`].
pub async fn open(pool: &SqlitePool) -> Result<Outbox> {
    let version: String = sqlx::query_scalar(VERSION_SQL).fetch_one(pool).await.map_err(failed)?;
    warn_of_wal_reset_bug(&version);
    adapter::open(pool, "main").await
}

async fn insert(outbox: &Outbox, tx: &mut Connection, row: &Prepared) -> Result<()> {
    let insert = sqlx::query(text(outbox.insert_sql())).bind(outbox.database()).bind(VERSION);
    let insert = insert.bind(&row.id).bind(&row.queue).bind(&row.group_digest).bind(&row.body);
    if insert.execute(&mut *tx).await.map_err(failed)?.rows_affected() == 1 {
        return Ok(());
    }
    match sqlx::query_as::<_, (Vec<u8>, i32)>(text(&outbox.why_not_sql())).fetch_optional(&mut *tx).await {
        Ok(Some((id, version))) => Err(outbox.why_not(&id, version, &row.queue)),
        Ok(None) => Err(no_row(DIALECT)),
        Err(error) => Err(failed(error)),
    }
}

async fn insert_many(outbox: &Outbox, tx: &mut Connection, rows: &[Prepared]) -> Result<()> {
    for row in rows {
        insert(outbox, tx, row).await?;
    }
    Ok(())
}

/// Returns an error for a connection whose commits may be lost or are not atomic. Transactions have
/// no number.
async fn begun(outbox: &Outbox, tx: &mut Connection) -> Result<Option<String>> {
    let synchronous: i64 = sqlx::query_scalar("PRAGMA main.synchronous").fetch_one(&mut *tx).await.map_err(failed)?;
    check_synchronous(outbox, synchronous)?;
    no_attached_file(tx).await?;
    Ok(None)
}

/// A file can be attached within a transaction. A statement can also end the transaction, and then
/// another one can begin.
async fn may_commit(committing: &Committing<'_>, tx: &mut Connection) -> Result<()> {
    if sqlx::query(BEGIN).execute(&mut *tx).await.is_ok() {
        sqlx::query("ROLLBACK").execute(&mut *tx).await.map_err(failed)?;
        return Err(committing.ended());
    }
    no_attached_file(tx).await
}

async fn no_attached_file(tx: &mut Connection) -> Result<()> {
    let attached: Option<(String, String)> = sqlx::query_as(ATTACHED_SQL).fetch_optional(&mut *tx).await.map_err(failed)?;
    attached.map_or(Ok(()), |(name, file)| Err(Error::Attached { name, file }))
}

fn is_missing_table(cause: &dyn DatabaseError) -> bool {
    cause.message().starts_with("no such table")
}
