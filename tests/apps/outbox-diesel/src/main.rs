//! Jobs in a transaction of Diesel: the outbox prepares a row, and the application inserts it.

use diesel::{
    Connection, QueryableByName, RunQueryDsl, SqliteConnection,
    connection::SimpleConnection,
    sql_types::{BigInt, Binary, Integer, Nullable, Text},
};
use queue_core::prelude::*;
use queue_outbox::{Dialect, Outbox};

#[task]
async fn send_receipt(_order: i64) {}

type Result<T> = std::result::Result<T, Box<dyn std::error::Error>>;

/// The identity of a database.
#[derive(QueryableByName)]
struct Found {
    #[diesel(sql_type = Binary)]
    id: Vec<u8>,
    #[diesel(sql_type = Integer)]
    version: i32,
}

fn open(connection: &mut SqliteConnection) -> Result<Outbox> {
    let found: Found = diesel::sql_query(Dialect::Sqlite.database_sql("main")?).get_result(connection)?;
    Ok(Outbox::with_database(Dialect::Sqlite, "main", found.id, found.version)?)
}

fn enqueue(outbox: &Outbox, connection: &mut SqliteConnection, order: i64) -> Result<()> {
    let row = outbox.prepare(send_receipt::job(order))?;
    let inserted = diesel::sql_query(outbox.insert_sql())
        .bind::<Binary, _>(outbox.database())
        .bind::<Integer, _>(queue_outbox::VERSION)
        .bind::<Binary, _>(&row.id)
        .bind::<Text, _>(&row.queue)
        .bind::<Nullable<Binary>, _>(&row.group_digest)
        .bind::<Binary, _>(&row.body)
        .execute(connection)?;
    if inserted == 0 {
        let found: Found = diesel::sql_query(outbox.why_not_sql()).get_result(connection)?;
        return Err(outbox.why_not(&found.id, found.version, &row.queue).into());
    }
    Ok(())
}

/// A number of rows.
#[derive(QueryableByName)]
struct Count {
    #[diesel(sql_type = BigInt)]
    rows: i64,
}

fn main() -> Result<()> {
    let mut connection = SqliteConnection::establish(":memory:")?;
    connection.batch_execute(&Dialect::Sqlite.migration("main")?)?;
    let outbox = open(&mut connection)?;
    let rolled_back: Result<()> = connection.immediate_transaction(|connection| {
        enqueue(&outbox, connection, 7)?;
        Err("rolled back".into())
    });
    assert_eq!(rolled_back.map_err(|error| error.to_string()), Err("rolled back".to_owned()));
    connection.immediate_transaction(|connection| enqueue(&outbox, connection, 7))?;
    outbox.wake();
    let Count { rows } = diesel::sql_query("SELECT count(*) AS rows FROM queue_outbox").get_result(&mut connection)?;
    connection.batch_execute("UPDATE queue_database SET full_queues = ',default,'")?;
    let full = enqueue(&outbox, &mut connection, 7).map_err(|error| error.to_string());
    println!("{rows} row, then {full:?}");
    Ok(())
}
