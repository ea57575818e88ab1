//! With a real PostgreSQL.

#[path = "cases.rs"]
mod cases;

use queue_core::{RawJob, prelude::*};
use queue_outbox::{Dialect, Done, Outbox, Relay};
use queue_outbox_sqlx::postgres::{Commit, EnqueueAllIn, EnqueueIn, JobTransaction, PublishIn, open};
use queue_tests::postgres::{connect, shared};
use sqlx::PgPool;

use self::cases::send_receipt;

type Db = sqlx::Postgres;
type Error = Box<dyn std::error::Error + Send + Sync>;

const FILE: &str = file!();
const BEGIN: &str = "BEGIN";
const FULL: &str = "'{mail}'";
const OTHER: Dialect = Dialect::Sqlite;

struct Place {
    url: String,
    pool: PgPool,
}

impl Place {
    async fn new() -> Place {
        let url = shared().database().await;
        connect(&url).await.batch_execute(&Dialect::Postgres.migration("public").unwrap()).await.unwrap();
        Place { pool: PgPool::connect(&url).await.unwrap(), url }
    }

    fn relay(&self) -> Relay {
        Relay::postgres(&self.url).unwrap()
    }
}

/// The example of docs/transactions.md.
async fn example(pool: PgPool) -> Result<(), Error> {
    use queue_outbox_sqlx::postgres;

    let outbox = postgres::open(&pool).await?;

    let mut tx = pool.begin().await?;
    let order: i64 = sqlx::query_scalar("INSERT INTO orders DEFAULT VALUES RETURNING id").fetch_one(&mut *tx).await?;
    send_receipt::job(order).enqueue_in(&outbox, &mut tx).await?;
    tx.commit().await?;
    postgres::notify(&outbox, &pool).await;
    Ok(())
}

#[tokio::test]
async fn the_example_of_the_documentation_runs() {
    let place = Place::new().await;
    let orders = "CREATE TABLE orders (id BIGINT GENERATED ALWAYS AS IDENTITY)";
    sqlx::query(orders).execute(&place.pool).await.unwrap();
    // A handler of a web application can await it.
    let pool = place.pool.clone();
    tokio::spawn(async move { example(pool).await }).await.unwrap().unwrap();
    assert_eq!(place.number("SELECT count(*) FROM queue_outbox").await, 1);
}

/// The other example.
#[task]
async fn pay(order: i64, outbox: Data<Outbox>, pool: Data<PgPool>, ctx: JobContext) -> Result<Done<i64>, Error> {
    let mut tx = ctx.begin(&outbox, &pool).await?;
    sqlx::query("UPDATE accounts SET balance = balance - 10 WHERE id = $1").bind(order).execute(&mut **tx).await?;
    send_receipt::job(order).enqueue_in(&outbox, &mut tx).await?;
    Ok(ctx.commit(tx, order).await?)
}

/// This transaction commits durably even if the server's default is asynchronous, unless the
/// application allows the loss.
#[tokio::test]
async fn a_commit_is_durable() {
    let place = Place::new().await;
    let pool = sqlx::postgres::PgPoolOptions::new().max_connections(1).connect(&place.url).await.unwrap();
    sqlx::query("SET synchronous_commit = off").execute(&pool).await.unwrap();
    let outbox = open(&pool).await.unwrap();
    for (outbox, expected) in [(outbox.clone(), "on"), (outbox.power_loss_may_lose_effects(), "off")] {
        let mut tx = queue_core::TestContext::new().build().begin(&outbox, &pool).await.unwrap();
        let set: String = sqlx::query_scalar("SHOW synchronous_commit").fetch_one(&mut **tx).await.unwrap();
        assert_eq!(set, expected);
    }
}

/// `begin_with` selects the isolation level of the transaction that commits the effects of a job.
#[tokio::test]
async fn a_run_chooses_its_isolation_level() {
    let place = Place::new().await;
    let outbox = place.with_account().await;
    let level = async |tx: &mut JobTransaction| {
        let level: String = sqlx::query_scalar("SHOW transaction_isolation").fetch_one(&mut ***tx).await.unwrap();
        level
    };
    let context = queue_core::TestContext::new().build();
    let mut tx = context.begin(&outbox, &place.pool).await.unwrap();
    assert_eq!(level(&mut tx).await, "read committed");
    drop(tx);
    let mut tx = context.begin_with(&outbox, &place.pool, "BEGIN ISOLATION LEVEL SERIALIZABLE").await.unwrap();
    assert_eq!(level(&mut tx).await, "serializable");
    // Another transaction changes a row that this one has read.
    let balance: i64 = sqlx::query_scalar("SELECT balance FROM accounts").fetch_one(&mut **tx).await.unwrap();
    place.execute("UPDATE accounts SET balance = balance - 1").await;
    let set = "UPDATE accounts SET balance = $1";
    let late = sqlx::query(set).bind(balance - 10).execute(&mut **tx).await.unwrap_err();
    assert_eq!(late.as_database_error().and_then(|cause| cause.code()).as_deref(), Some("40001"));
    drop(tx);
    let mut tx = context.begin_with(&outbox, &place.pool, "BEGIN ISOLATION LEVEL SERIALIZABLE").await.unwrap();
    sqlx::query(set).bind(90_i64).execute(&mut **tx).await.unwrap();
    let done: Result<Done<()>, _> = context.commit(tx, ()).await;
    assert!(done.is_ok(), "{done:?}");
    assert_eq!((place.balance().await, place.number("SELECT count(*) FROM queue_effects").await), (90, 1));
}

/// The full one of many queues is named.
#[tokio::test]
async fn the_full_queue_of_many_is_named() {
    let place = Place::new().await;
    place.execute("UPDATE queue_database SET full_queues = '{mail}'").await;
    let outbox = open(&place.pool).await.unwrap();
    let mut tx = place.pool.begin().await.unwrap();
    let jobs = ["first", "mail"].map(|queue| RawJob::new("a", vec![0x80]).queue(queue));
    let full = jobs.enqueue_all_in(&outbox, &mut tx).await;
    assert!(matches!(&full, Err(queue_outbox::Error::Full { queue }) if queue == "mail"), "{full:?}");
}
