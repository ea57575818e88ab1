//! The layer below the adapter, which any database library can use: this is the example of
//! docs/transactions.md.

use queue_core::prelude::*;
use queue_outbox::{Dialect, Outbox};
use sqlx::PgPool;

#[task]
async fn send_receipt(_order: i64) {}

type Result<T> = std::result::Result<T, Box<dyn std::error::Error>>;

async fn open(pool: &PgPool) -> Result<Outbox> {
    let (id, version) = sqlx::query_as(&Dialect::Postgres.database_sql("public")?).fetch_one(pool).await?;
    Ok(Outbox::with_database(Dialect::Postgres, "public", id, version)?)
}

async fn enqueue(outbox: &Outbox, tx: &mut sqlx::Transaction<'_, sqlx::Postgres>, order: i64) -> Result<()> {
    let row = outbox.prepare(send_receipt::job(order))?;
    let inserted = sqlx::query(outbox.insert_sql())
        .bind(outbox.database())
        .bind(queue_outbox::VERSION)
        .bind(&row.id)
        .bind(&row.queue)
        .bind(&row.group_digest)
        .bind(&row.body)
        .execute(&mut **tx)
        .await?;
    if inserted.rows_affected() == 0 {
        let (id, version): (Vec<u8>, i32) = sqlx::query_as(&outbox.why_not_sql()).fetch_one(&mut **tx).await?;
        return Err(outbox.why_not(&id, version, &row.queue).into());
    }
    Ok(())
}

#[tokio::test]
async fn any_library_inserts_what_was_prepared() {
    let url = queue_tests::postgres::shared().database().await;
    queue_tests::postgres::connect(&url).await.batch_execute(&Dialect::Postgres.migration("public").unwrap()).await.unwrap();
    let pool = PgPool::connect(&url).await.unwrap();
    let outbox = open(&pool).await.unwrap();
    for commits in [false, true] {
        let mut tx = pool.begin().await.unwrap();
        enqueue(&outbox, &mut tx, 7).await.unwrap();
        if commits {
            tx.commit().await.unwrap();
        }
    }
    let rows: i64 = sqlx::query_scalar("SELECT count(*) FROM queue_outbox").fetch_one(&pool).await.unwrap();
    assert_eq!(rows, 1);
    sqlx::query("UPDATE queue_database SET full_queues = '{default}'").execute(&pool).await.unwrap();
    let mut tx = pool.begin().await.unwrap();
    let full = enqueue(&outbox, &mut tx, 7).await.unwrap_err().to_string();
    assert!(full.contains("full for queue `default`"), "{full}");
}
