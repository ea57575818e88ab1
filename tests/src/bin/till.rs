//! A shop whose processes are killed by tests: `orders` stores orders and their jobs in one
//! transaction, `relay` sends the jobs, and `work` runs them. Each payment is an effect that
//! commits with the ending of its job; every tenth order is paid in two rounds.
//!
//! `DATABASE` is a URL of PostgreSQL or the path of a SQLite file, `QUEUE_URL` the broker, `ORDERS`
//! how many orders there shall be, `STEP_MS` the longest pause between two steps, `AT_ONCE` the
//! orders of a transaction (1), `CONCURRENCY` that of the worker (8).
//!
//! With `STOP_AT`, the process stops when it reaches that step for the first time. It creates the
//! file `STOP_FILE`, and continues when the file is removed.
//!
//! | part | steps |
//! |---|---|
//! | `orders` | `ordered`: the order is inserted; `inserted`: its job, too; `committed` |
//! | `relay` | `taken`: the request is stored and not sent; `sent`: it was answered |
//! | `work` | `effect`: the effect is inserted; `paid`: it has committed; the same of the first of two rounds: `effect of a round`, `paid in a round`; `acked`: endings were stored |

use std::{
    path::{Path, PathBuf},
    process::ExitCode,
    sync::{
        Mutex, PoisonError,
        atomic::{AtomicBool, Ordering},
    },
    time::Duration,
};

use queue_core::{
    Client, Done,
    broker::{Broker, DynBroker, Enqueue, Enqueued, Turn, TurnAnswer, Wrapper},
    prelude::*,
};
use queue_outbox::{Outbox, Relay, postgres, sqlite};
use queue_tests::postgres::try_connect;
use queue_worker::Worker;
use rusqlite::{Connection, TransactionBehavior};

type Fault = Box<dyn std::error::Error + Send + Sync>;

struct Shop {
    database: String,
    step: Duration,
    /// Idle connections.
    clients: Mutex<Vec<tokio_postgres::Client>>,
    connections: Mutex<Vec<Connection>>,
}

/// A number in the environment.
fn number(variable: &str, otherwise: u32) -> Result<u32, Fault> {
    Ok(std::env::var(variable).ok().map(|text| text.parse()).transpose()?.unwrap_or(otherwise))
}

/// The file that shows that this process has stopped at this step. The process continues when the
/// file is removed.
fn stops(step: &str) -> Option<PathBuf> {
    static STOPPED: AtomicBool = AtomicBool::new(false);
    let here = std::env::var("STOP_AT").is_ok_and(|at| at == step) && !STOPPED.swap(true, Ordering::SeqCst);
    let file = here.then(|| std::env::var_os("STOP_FILE")).flatten().map(PathBuf::from)?;
    std::fs::write(&file, step).ok()?;
    Some(file)
}

async fn reaches(step: &str) {
    if let Some(file) = stops(step) {
        while file.exists() {
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    }
}

fn reaches_blocking(step: &str) {
    if let Some(file) = stops(step) {
        while file.exists() {
            std::thread::sleep(Duration::from_millis(5));
        }
    }
}

/// A broker whose caller stops before and after each call.
#[derive(Debug)]
struct Stepped {
    inner: DynBroker,
}

impl Wrapper for Stepped {
    fn inner(&self) -> &dyn Broker {
        &*self.inner
    }

    async fn enqueue(&self, request: &Enqueue) -> queue_core::Result<Vec<Enqueued>> {
        reaches("taken").await;
        let answers = self.inner.enqueue(request).await;
        if answers.is_ok() {
            reaches("sent").await;
        }
        answers
    }

    async fn turn(&self, turn: &Turn) -> queue_core::Result<TurnAnswer> {
        let answer = self.inner.turn(turn).await;
        if answer.is_ok() && !turn.finishes.is_empty() {
            reaches("acked").await;
        }
        answer
    }
}

async fn client() -> Result<Client, Fault> {
    let client = Client::open(&std::env::var("QUEUE_URL")?).await?;
    Ok(Client::with_broker(std::sync::Arc::new(Stepped { inner: client.broker().clone() })))
}

impl Shop {
    fn of_env() -> Result<Shop, Fault> {
        let step = Duration::from_millis(number("STEP_MS", 0)?.into());
        Ok(Shop { database: std::env::var("DATABASE")?, step, clients: Mutex::default(), connections: Mutex::default() })
    }

    /// An idle connection, or a new one.
    async fn client(&self) -> Result<tokio_postgres::Client, Fault> {
        let free = self.clients.lock().unwrap_or_else(PoisonError::into_inner).pop();
        match free.filter(|client| !client.is_closed()) {
            Some(client) => Ok(client),
            None => Ok(try_connect(&self.database).await?),
        }
    }

    fn connection(&self) -> Result<Connection, Fault> {
        let free = self.connections.lock().unwrap_or_else(PoisonError::into_inner).pop();
        free.map_or_else(|| self.open(), Ok)
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

    /// A pause in which the process may be killed between two steps.
    fn pause(&self) -> Duration {
        self.step.mul_f64(fastrand::f64())
    }
}

const FOUND: &str = "SELECT count(*) FROM effects WHERE n = $1";
const EFFECT: &str = "INSERT INTO effects (n) VALUES ($1)";
/// In a separate transaction: a run has begun.
const RUN: &str = "INSERT INTO runs (n) VALUES ($1)";

/// Whether this is the first of two rounds.
fn repeats(n: i64, found: i64) -> bool {
    n % 10 == 0 && found == 0
}

#[task(queue = "till", max_attempts = 100000, max_crashes = 100000, backoff(base = "20ms", max = "200ms"))]
async fn pay_server(n: i64, shop: Data<Shop>, ctx: JobContext) -> Result<Done<()>, Fault> {
    use postgres::Commit;
    let mut client = shop.client().await?;
    client.execute(RUN, &[&n]).await?;
    let outbox = Outbox::postgres(&client).await?;
    let tx = ctx.begin(&outbox, &mut client).await?;
    let found: i64 = tx.query_one(FOUND, &[&n]).await?.get(0);
    tx.execute(EFFECT, &[&n]).await?;
    let repeats = repeats(n, found);
    tokio::time::sleep(shop.pause()).await;
    reaches(if repeats { "effect of a round" } else { "effect" }).await;
    let done = if repeats { ctx.commit_and_repeat(tx, Duration::ZERO).await? } else { ctx.commit(tx, ()).await? };
    reaches(if repeats { "paid in a round" } else { "paid" }).await;
    tokio::time::sleep(shop.pause()).await;
    shop.clients.lock().unwrap_or_else(PoisonError::into_inner).push(client);
    Ok(done)
}

#[task(blocking, queue = "till", max_attempts = 100000, max_crashes = 100000, backoff(base = "20ms", max = "200ms"))]
fn pay_file(n: i64, shop: Data<Shop>, ctx: JobContext) -> Result<Done<()>, Fault> {
    use sqlite::Commit;
    let mut connection = shop.connection()?;
    connection.execute(RUN, [n])?;
    let outbox = Outbox::sqlite(&connection)?;
    let tx = ctx.begin(&outbox, &mut connection)?;
    let found: i64 = tx.query_row(FOUND, [n], |row| row.get(0))?;
    tx.execute(EFFECT, [n])?;
    let repeats = repeats(n, found);
    std::thread::sleep(shop.pause());
    reaches_blocking(if repeats { "effect of a round" } else { "effect" });
    let done = if repeats { ctx.commit_and_repeat(tx, Duration::ZERO)? } else { ctx.commit(tx, ())? };
    reaches_blocking(if repeats { "paid in a round" } else { "paid" });
    std::thread::sleep(shop.pause());
    shop.connections.lock().unwrap_or_else(PoisonError::into_inner).push(connection);
    Ok(done)
}

/// Stores orders with their jobs, some in each transaction, until there are enough.
async fn order(shop: &Shop, orders: i64, at_once: u32) -> Result<(), Fault> {
    const HOW_MANY: &str = "SELECT count(*) FROM orders";
    const ORDER: &str = "INSERT INTO orders DEFAULT VALUES RETURNING n";
    if shop.is_server() {
        let mut client = try_connect(&shop.database).await?;
        let outbox = Outbox::postgres(&client).await?;
        let mut stored: i64 = client.query_one(HOW_MANY, &[]).await?.get(0);
        while stored < orders {
            let tx = client.transaction().await?;
            let order = tx.prepare(ORDER).await?;
            let mut jobs = Vec::new();
            for _ in 0..at_once {
                jobs.push(pay_server::job(tx.query_one(&order, &[]).await?.get::<_, i64>(0)));
            }
            tokio::time::sleep(shop.pause()).await;
            reaches("ordered").await;
            match jobs.len() {
                1 => drop(postgres::EnqueueIn::enqueue_in(jobs.remove(0), &outbox, &tx).await?),
                _ => drop(postgres::EnqueueAllIn::enqueue_all_in(jobs, &outbox, &tx).await?),
            }
            tokio::time::sleep(shop.pause()).await;
            reaches("inserted").await;
            tx.commit().await?;
            stored += i64::from(at_once);
            reaches("committed").await;
            outbox.wake();
        }
        return Ok(());
    }
    let mut connection = shop.open()?;
    let outbox = Outbox::sqlite(&connection)?;
    let mut stored: i64 = connection.query_row(HOW_MANY, (), |row| row.get(0))?;
    while stored < orders {
        let tx = connection.transaction_with_behavior(TransactionBehavior::Immediate)?;
        let mut jobs = Vec::new();
        for _ in 0..at_once {
            jobs.push(pay_file::job(tx.query_row(ORDER, (), |row| row.get::<_, i64>(0))?));
        }
        std::thread::sleep(shop.pause());
        reaches_blocking("ordered");
        match jobs.len() {
            1 => drop(sqlite::EnqueueIn::enqueue_in(jobs.remove(0), &outbox, &tx)?),
            _ => drop(sqlite::EnqueueAllIn::enqueue_all_in(jobs, &outbox, &tx)?),
        }
        std::thread::sleep(shop.pause());
        reaches_blocking("inserted");
        tx.commit()?;
        stored += i64::from(at_once);
        reaches_blocking("committed");
        // Other processes also write.
        std::thread::sleep(Duration::from_millis(5));
    }
    Ok(())
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
            let at_once = number("AT_ONCE", 1)?;
            // The database may be killed.
            while order(&shop, orders, at_once).await.is_err() {
                tokio::time::sleep(Duration::from_millis(20)).await;
            }
            Ok(())
        }
        Some("relay") => {
            shop.relay()?.run(&client().await?, std::future::pending::<()>()).await;
            Ok(())
        }
        _ => {
            let (relay, concurrency) = (shop.relay()?, number("CONCURRENCY", 8)?);
            let worker = Worker::new(client().await?).queue("till").lease(Duration::from_secs(3)).data(shop).outbox(relay);
            worker.concurrency(concurrency as usize).run_until_signal().await?;
            Ok(())
        }
    }
}
