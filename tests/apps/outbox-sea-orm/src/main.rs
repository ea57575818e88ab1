//! Jobs in a transaction of SeaORM. SeaORM hides its connection: the outbox prepares a row, and the
//! application inserts it.

use queue_core::prelude::*;
use queue_outbox::{Dialect, Outbox};
use sea_orm::{ConnectionTrait, Database, DatabaseConnection, DatabaseTransaction, Statement, TransactionTrait};

#[task]
async fn send_receipt(_order: i64) {}

type Result<T> = std::result::Result<T, Box<dyn std::error::Error>>;

async fn open(database: &DatabaseConnection) -> Result<Outbox> {
    let sql = Dialect::Sqlite.database_sql("main")?;
    let found = database.query_one(Statement::from_string(database.get_database_backend(), sql)).await?;
    let found = found.ok_or("queue_database has no row")?;
    Ok(Outbox::with_database(Dialect::Sqlite, "main", found.try_get_by_index(0)?, found.try_get_by_index(1)?)?)
}

async fn enqueue(outbox: &Outbox, tx: &DatabaseTransaction, order: i64) -> Result<()> {
    let row = outbox.prepare(send_receipt::job(order))?;
    let values = [
        outbox.database().to_vec().into(),
        queue_outbox::VERSION.into(),
        row.id.into(),
        row.queue.clone().into(),
        row.group_digest.into(),
        row.body.into(),
    ];
    let insert = Statement::from_sql_and_values(tx.get_database_backend(), outbox.insert_sql(), values);
    if tx.execute(insert).await?.rows_affected() == 0 {
        let found = tx.query_one(Statement::from_string(tx.get_database_backend(), outbox.why_not_sql())).await?;
        let found = found.ok_or("queue_database has no row")?;
        return Err(outbox.why_not(&found.try_get_by_index::<Vec<u8>>(0)?, found.try_get_by_index(1)?, &row.queue).into());
    }
    Ok(())
}

#[tokio::main]
async fn main() -> Result<()> {
    let mut options = sea_orm::ConnectOptions::new("sqlite::memory:");
    options.max_connections(1);
    let database = Database::connect(options).await?;
    database.execute_unprepared(&Dialect::Sqlite.migration("main")?).await?;
    database.execute_unprepared("CREATE TABLE orders (id INTEGER PRIMARY KEY)").await?;
    let outbox = open(&database).await?;
    for commits in [false, true] {
        let tx = database.begin().await?;
        let order = tx.execute_unprepared("INSERT INTO orders DEFAULT VALUES").await?.last_insert_id();
        enqueue(&outbox, &tx, i64::try_from(order)?).await?;
        if commits { tx.commit().await? } else { tx.rollback().await? }
    }
    outbox.wake();
    let count = Statement::from_string(database.get_database_backend(), "SELECT count(*) FROM queue_outbox");
    let rows: i64 = database.query_one(count).await?.ok_or("a count has a row")?.try_get_by_index(0)?;
    database.execute_unprepared("UPDATE queue_database SET full_queues = ',default,'").await?;
    let tx = database.begin().await?;
    let full = enqueue(&outbox, &tx, 7).await.map_err(|error| error.to_string());
    println!("{rows} row, then {full:?}");
    Ok(())
}
