//! With a SQLite file.

#[path = "cases.rs"]
mod cases;

use queue_core::{TestContext, prelude::*};
use queue_outbox::{Dialect, Done, Outbox, Relay};
use queue_outbox_sqlx::sqlite::{Commit, EnqueueAllIn, EnqueueIn, JobTransaction, PublishIn, open};
use sqlx::{
    SqlitePool,
    sqlite::{SqliteConnectOptions, SqliteJournalMode, SqlitePoolOptions, SqliteSynchronous},
};

use self::cases::send_receipt;

type Db = sqlx::Sqlite;
type Error = Box<dyn std::error::Error + Send + Sync>;

const FILE: &str = file!();
const BEGIN: &str = "BEGIN IMMEDIATE";
const FULL: &str = "',mail,'";
const OTHER: Dialect = Dialect::Postgres;

struct Place {
    folder: tempfile::TempDir,
    pool: SqlitePool,
}

impl Place {
    async fn new() -> Place {
        let folder = tempfile::tempdir().unwrap();
        let options = SqliteConnectOptions::new().filename(folder.path().join("app.db")).create_if_missing(true);
        let options = options.journal_mode(SqliteJournalMode::Wal).synchronous(SqliteSynchronous::Full);
        let place = Place { pool: SqlitePool::connect_with(options).await.unwrap(), folder };
        let migration = Dialect::Sqlite.migration("main").unwrap();
        place.execute(&migration).await;
        place
    }

    fn relay(&self) -> Relay {
        Relay::sqlite(self.folder.path().join("app.db"))
    }
}

#[task]
async fn pay(order: i64, outbox: Data<Outbox>, pool: Data<SqlitePool>, ctx: JobContext) -> Result<Done<i64>, Error> {
    let mut tx = ctx.begin(&outbox, &pool).await?;
    sqlx::query("UPDATE accounts SET balance = balance - 10 WHERE id = $1").bind(order).execute(&mut **tx).await?;
    send_receipt::job(order).enqueue_in(&outbox, &mut tx).await?;
    Ok(ctx.commit(tx, order).await?)
}

/// Begins with another statement than `BEGIN IMMEDIATE`, with the same checks. Other connections
/// can write in the meantime, and then its own write fails.
#[tokio::test]
async fn a_run_chooses_how_its_transaction_begins() {
    let place = Place::new().await;
    let outbox = place.with_account().await;
    for others_write in [true, false] {
        let context = TestContext::new().build();
        let mut tx = context.begin_with(&outbox, &place.pool, "BEGIN DEFERRED").await.unwrap();
        if others_write {
            place.execute("UPDATE accounts SET balance = balance - 1").await;
        }
        let paid = sqlx::query("UPDATE accounts SET balance = balance - 10").execute(&mut **tx).await;
        assert_eq!(paid.is_err(), others_write, "{paid:?}");
        if paid.is_ok() {
            let done: queue_outbox::Result<Done<()>> = context.commit(tx, ()).await;
            assert!(done.is_ok(), "{done:?}");
        }
    }
    assert_eq!((place.balance().await, place.number("SELECT count(*) FROM queue_effects").await), (89, 1));
    let pool = SqlitePoolOptions::new().max_connections(1).connect_with((*place.pool.connect_options()).clone()).await.unwrap();
    sqlx::query("PRAGMA synchronous = OFF").execute(&pool).await.unwrap();
    let refused = TestContext::new().build().begin_with(&outbox, &pool, "BEGIN DEFERRED").await.map(drop);
    assert!(matches!(refused, Err(queue_outbox::Error::Synchronous { found: 0 })), "{refused:?}");
}

#[tokio::test]
async fn a_connection_that_may_lose_a_commit_is_refused() {
    let place = Place::new().await;
    let outbox = open(&place.pool).await.unwrap();
    let pool = SqlitePoolOptions::new().max_connections(1).connect_with((*place.pool.connect_options()).clone()).await.unwrap();
    let context = || TestContext::new().build();
    sqlx::query("PRAGMA synchronous = NORMAL").execute(&pool).await.unwrap();
    let refused = context().begin(&outbox, &pool).await.map(drop);
    assert!(matches!(refused, Err(queue_outbox::Error::Synchronous { found: 1 })), "{refused:?}");
    let tx = context().begin(&outbox.power_loss_may_lose_effects(), &pool).await.unwrap();
    drop(tx);
    sqlx::query("PRAGMA synchronous = FULL").execute(&pool).await.unwrap();
    let beside = place.folder.path().join("beside.db");
    sqlx::query("ATTACH ?1 AS beside").bind(beside.display().to_string()).execute(&pool).await.unwrap();
    let refused = context().begin(&outbox, &pool).await.map(drop);
    assert!(matches!(&refused, Err(queue_outbox::Error::Attached { name, .. }) if name == "beside"), "{refused:?}");
}
