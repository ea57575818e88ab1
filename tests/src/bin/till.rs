//! A shop whose processes are killed by tests: `orders` stores orders and their jobs in one transaction, `relay` sends the jobs, and `work` runs them. Each payment is an
//! effect that commits with the ending of its job; every tenth order is paid in two rounds.
//!
//! `DATABASE` is a URL of PostgreSQL or the path of a SQLite file, `QUEUE_URL` the broker, `ORDERS` how many orders there shall be, `STEP_MS` the longest pause between two
//! steps.

use std::{path::Path, process::ExitCode, time::Duration};

use queue_core::{Client, Done, prelude::*};
use queue_outbox::{Outbox, Relay, postgres, sqlite};
use queue_tests::postgres::try_connect;
use queue_worker::Worker;
use rusqlite::{Connection, TransactionBehavior};

type Fault = Box<dyn std::error::Error + Send + Sync>;

struct Shop {
    database: String,
    step: Duration,
}

impl Shop {
    fn of_env() -> Result<Shop, Fault> {
        let ms: u64 = std::env::var("STEP_MS")?.parse()?;
        Ok(Shop { database: std::env::var("DATABASE")?, step: Duration::from_millis(ms) })
    }

    fn is_server(&self) -> bool {
        self.database.starts_with("postgres://")
    }

    fn relay(&self) -> Result<Relay, Fault> {
        Ok(if self.is_server() { Relay::postgres(&self.database)? } else { Relay::sqlite(&self.database) })
    }

    fn open(&self) -> Result<Connection, Fault> {
        let connection = Connection::open(Path::new(&self.database))?;
        connection.busy_timeout(Duration::from_secs(10))?;
        Ok(connection)
    }

    /// Time for a kill between two steps.
    fn pause(&self) -> Duration {
        self.step.mul_f64(fastrand::f64())
    }
}

const FOUND: &str = "SELECT count(*) FROM effects WHERE n = $1";
const EFFECT: &str = "INSERT INTO effects (n) VALUES ($1)";

/// Whether this is the first of two rounds.
fn repeats(n: i64, found: i64) -> bool {
    n % 10 == 0 && found == 0
}

#[task(queue = "till", max_attempts = 100000, max_crashes = 100000, backoff(base = "20ms", max = "200ms"))]
async fn pay_server(n: i64, shop: Data<Shop>, ctx: JobContext) -> Result<Done<()>, Fault> {
    use postgres::Commit;
    let mut client = try_connect(&shop.database).await?;
    let outbox = Outbox::postgres(&client).await?;
    let tx = ctx.begin(&outbox, &mut client).await?;
    let found: i64 = tx.query_one(FOUND, &[&n]).await?.get(0);
    tx.execute(EFFECT, &[&n]).await?;
    tokio::time::sleep(shop.pause()).await;
    let done = if repeats(n, found) { ctx.commit_and_repeat(tx, Duration::ZERO).await? } else { ctx.commit(tx, ()).await? };
    tokio::time::sleep(shop.pause()).await;
    Ok(done)
}

#[task(blocking, queue = "till", max_attempts = 100000, max_crashes = 100000, backoff(base = "20ms", max = "200ms"))]
fn pay_file(n: i64, shop: Data<Shop>, ctx: JobContext) -> Result<Done<()>, Fault> {
    use sqlite::Commit;
    let mut connection = shop.open()?;
    let outbox = Outbox::sqlite(&connection)?;
    let tx = ctx.begin(&outbox, &mut connection)?;
    let found: i64 = tx.query_row(FOUND, [n], |row| row.get(0))?;
    tx.execute(EFFECT, [n])?;
    std::thread::sleep(shop.pause());
    let done = if repeats(n, found) { ctx.commit_and_repeat(tx, Duration::ZERO)? } else { ctx.commit(tx, ())? };
    std::thread::sleep(shop.pause());
    Ok(done)
}

/// Stores one order with its job. True: there are enough.
async fn order(shop: &Shop, orders: i64) -> Result<bool, Fault> {
    const HOW_MANY: &str = "SELECT count(*) FROM orders";
    const ORDER: &str = "INSERT INTO orders DEFAULT VALUES RETURNING n";
    if shop.is_server() {
        let mut client = try_connect(&shop.database).await?;
        let outbox = Outbox::postgres(&client).await?;
        loop {
            if client.query_one(HOW_MANY, &[]).await?.get::<_, i64>(0) >= orders {
                return Ok(true);
            }
            let tx = client.transaction().await?;
            let n: i64 = tx.query_one(ORDER, &[]).await?.get(0);
            tokio::time::sleep(shop.pause()).await;
            postgres::EnqueueIn::enqueue_in(pay_server::job(n), &outbox, &tx).await?;
            tokio::time::sleep(shop.pause()).await;
            tx.commit().await?;
            outbox.wake();
        }
    }
    let mut connection = shop.open()?;
    let outbox = Outbox::sqlite(&connection)?;
    if connection.query_row(HOW_MANY, (), |row| row.get::<_, i64>(0))? >= orders {
        return Ok(true);
    }
    let tx = connection.transaction_with_behavior(TransactionBehavior::Immediate)?;
    let n: i64 = tx.query_row(ORDER, (), |row| row.get(0))?;
    std::thread::sleep(shop.pause());
    sqlite::EnqueueIn::enqueue_in(pay_file::job(n), &outbox, &tx)?;
    std::thread::sleep(shop.pause());
    tx.commit()?;
    Ok(false)
}

#[tokio::main]
async fn main() -> ExitCode {
    match run().await {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("{error}");
            ExitCode::FAILURE
        }
    }
}

async fn run() -> Result<(), Fault> {
    let shop = Shop::of_env()?;
    match std::env::args().nth(1).as_deref() {
        Some("orders") => {
            let orders: i64 = std::env::var("ORDERS")?.parse()?;
            loop {
                match order(&shop, orders).await {
                    Ok(true) => return Ok(()),
                    Ok(false) => {}
                    // The database was killed.
                    Err(_) => tokio::time::sleep(Duration::from_millis(20)).await,
                }
            }
        }
        Some("relay") => {
            let client = Client::open(&std::env::var("QUEUE_URL")?).await?;
            shop.relay()?.run(&client, std::future::pending::<()>()).await;
            Ok(())
        }
        _ => {
            let client = Client::open(&std::env::var("QUEUE_URL")?).await?;
            let relay = shop.relay()?;
            let worker = Worker::new(client).queue("till").concurrency(8).lease(Duration::from_secs(3)).data(shop).outbox(relay);
            worker.run_until_signal().await?;
            Ok(())
        }
    }
}
