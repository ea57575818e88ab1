//! `kill -9` of the application, the relay, the worker and the database at random moments: each order that the database has is paid once, or twice where it has two rounds.
//!
//! `QUEUE_TEST_EFFECTS` is the number of orders (60), `QUEUE_TEST_SEED` repeats the victims and the pauses of a seed.

use std::{process::Command, time::Duration};

use queue_conformance::patience::wait;
use queue_core::JobState;
use queue_tests::{
    postgres::{Postgres, connect},
    process::Process,
    server::{self, Kind},
};

use crate::bed::Database;

fn number(variable: &str) -> Option<u64> {
    std::env::var(variable).ok().map(|text| text.parse().unwrap_or_else(|_| panic!("{variable} `{text}` is not a number")))
}

/// What is killed.
const PARTS: [&str; 3] = ["orders", "relay", "work"];

struct Till {
    server: Option<Postgres>,
    database: Database,
    broker: String,
    orders: u64,
    parts: Vec<Process>,
}

impl Till {
    async fn open(server: Option<Postgres>, broker: String) -> Till {
        let database = match &server {
            Some(server) => Database::in_server(server).await,
            None => Database::sqlite(),
        };
        let numbered = match database {
            Database::Postgres { .. } => "BIGINT GENERATED ALWAYS AS IDENTITY PRIMARY KEY",
            Database::Sqlite { .. } => "INTEGER PRIMARY KEY AUTOINCREMENT",
        };
        database.execute(&format!("CREATE TABLE orders (n {numbered}); CREATE TABLE effects (n BIGINT NOT NULL)")).await;
        if server.is_some() {
            // Where commits may be forgotten, the tables are not.
            database.execute("CHECKPOINT").await;
        }
        let orders = number("QUEUE_TEST_EFFECTS").unwrap_or(60);
        let mut till = Till { server, database, broker, orders, parts: Vec::new() };
        for part in PARTS {
            let process = till.start(part);
            till.parts.push(process);
        }
        till
    }

    fn start(&self, part: &str) -> Process {
        let database = match &self.database {
            Database::Postgres { url } => url.clone(),
            Database::Sqlite { path, .. } => path.display().to_string(),
        };
        let mut command = Command::new(env!("CARGO_BIN_EXE_till"));
        command
            .arg(part)
            .env("DATABASE", database)
            .env("QUEUE_URL", &self.broker)
            .env("ORDERS", self.orders.to_string())
            .env("STEP_MS", "15");
        Process::start(&mut command)
    }

    /// Kills parts and the database until all orders are there, and some more times.
    async fn suffer(&mut self, random: &mut fastrand::Rng) {
        let mut after = 0;
        while after < 4 {
            tokio::time::sleep(Duration::from_millis(random.u64(20..400))).await;
            match random.usize(0..PARTS.len() + 1) {
                part if part < PARTS.len() => {
                    self.parts.remove(part).kill();
                    let process = self.start(PARTS[part]);
                    self.parts.insert(part, process);
                    // The lease of a relay that was killed only saves work; it would be over in half a minute.
                    self.database.execute("UPDATE queue_relay SET holder = NULL, until = NULL").await;
                }
                _ => {
                    if let Some(server) = &mut self.server {
                        server.restart();
                    }
                }
            }
            if self.database.number("SELECT count(*) FROM orders").await >= self.orders.cast_signed() {
                after += 1;
            }
        }
    }

    /// Effects = commits: nothing is lost, and nothing doubled.
    async fn settles(self) {
        let client = queue_core::Client::open(&self.broker).await.expect("the URL of a server of ours");
        let paid = wait("all orders to be paid and their jobs to be gone").on(client.broker()).until(async || {
            if self.database.number("SELECT count(*) FROM queue_outbox").await > 0 {
                return false;
            }
            let stats = client.inspector().stats("till").await;
            let waiting = [JobState::Ready, JobState::Scheduled, JobState::Retry, JobState::Active, JobState::Parked, JobState::Dead];
            stats.is_ok_and(|stats| waiting.iter().all(|state| stats.count(*state) == 0))
        });
        paid.await;
        let expected = "CASE WHEN o.n % 10 = 0 THEN 2 ELSE 1 END";
        let found = "(SELECT count(*) FROM effects e WHERE e.n = o.n)";
        let lost = self.database.number(&format!("SELECT count(*) FROM orders o WHERE {found} < {expected}")).await;
        let doubled = self.database.number(&format!("SELECT count(*) FROM orders o WHERE {found} > {expected}")).await;
        let strangers = self.database.number("SELECT count(*) FROM effects e WHERE e.n NOT IN (SELECT n FROM orders)").await;
        let orders = self.database.number("SELECT count(*) FROM orders").await;
        let endings = self.database.number("SELECT count(*) FROM queue_effects").await;
        assert_eq!((lost, doubled, strangers), (0, 0, 0), "lost, doubled, of no order");
        assert!(orders >= self.orders.cast_signed());
        assert_eq!(endings, orders, "one ending for each order");
    }
}

/// The seed of this run.
fn seeded() -> fastrand::Rng {
    let seed = number("QUEUE_TEST_SEED").unwrap_or_else(|| fastrand::u64(..));
    println!("seed {seed}; QUEUE_TEST_SEED={seed} kills the same parts after the same pauses");
    fastrand::Rng::with_seed(seed)
}

fn redis() -> String {
    format!("{}?namespace=till-{:016x}", server::shared(Kind::Redis), fastrand::u64(..))
}

mod on_postgres {
    use super::*;

    mod on_redis {
        use super::*;

        #[tokio::test(flavor = "multi_thread", worker_threads = 2)]
        async fn effects_are_commits_whatever_is_killed() {
            let mut till = Till::open(Some(Postgres::start()), redis()).await;
            till.suffer(&mut seeded()).await;
            till.settles().await;
        }

        /// The server forgets its last commits: orders with their jobs, and never effects whose jobs have ended.
        #[tokio::test(flavor = "multi_thread", worker_threads = 2)]
        async fn effects_are_commits_in_a_server_that_forgets_commits() {
            let server = Postgres::with(&["fsync=off", "full_page_writes=off", "synchronous_commit=off", "wal_writer_delay=500ms"]);
            let mut till = Till::open(Some(server), redis()).await;
            till.suffer(&mut seeded()).await;
            till.settles().await;
        }
    }
}

mod in_sqlite_and_on_redis {
    use super::*;

    #[tokio::test(flavor = "multi_thread", worker_threads = 2)]
    async fn effects_are_commits_whatever_is_killed() {
        let mut till = Till::open(None, redis()).await;
        till.suffer(&mut seeded()).await;
        till.settles().await;
    }
}

mod in_sqlite_and_on_sqlite {
    use super::*;

    #[tokio::test(flavor = "multi_thread", worker_threads = 2)]
    async fn effects_are_commits_whatever_is_killed() {
        let folder = queue_conformance::folder::folder();
        let broker = format!("sqlite://{}", folder.path().join("queue.db").display());
        let mut till = Till::open(None, broker).await;
        till.suffer(&mut seeded()).await;
        till.settles().await;
    }
}

/// A COMMIT that waits for a standby which does not come: nobody knows whether the job has committed, and it is not buried meanwhile.
mod cut_off {
    use std::sync::Arc;

    use queue_core::{Client, Done, prelude::*, registry::Registry, sqlite::SqliteBroker};
    use queue_outbox::{Error, Outbox, Relay, postgres::Commit};
    use queue_worker::Worker;

    use super::*;

    struct Place(String);

    #[task(queue = "cut", max_attempts = 1, timeout = "1s")]
    async fn pay_once(place: Data<Place>, ctx: JobContext) -> Result<Done<()>, Error> {
        let mut client = connect(&place.0).await;
        let outbox = Outbox::postgres(&client).await?;
        let tx = ctx.begin(&outbox, &mut client).await?;
        tx.execute("INSERT INTO effects (n) VALUES (1)", &[]).await?;
        ctx.commit(tx, ()).await
    }

    #[tokio::test(flavor = "multi_thread", worker_threads = 2)]
    async fn on_postgres_a_commit_that_was_cut_off_is_not_buried_and_counts_once() {
        let server = Postgres::start();
        let database = Database::in_server(&server).await;
        let Database::Postgres { url } = &database else { unreachable!("it is in PostgreSQL") };
        database.execute("CREATE TABLE effects (n BIGINT NOT NULL)").await;
        let client = Client::with_broker(SqliteBroker::open("sqlite::memory:").unwrap());
        let job = pay_once::job().retention(Duration::from_secs(3600)).enqueue(&client).await.unwrap().address().clone();
        // A statement alone each: they are refused in a transaction.
        let admin = connect(url).await;
        admin.batch_execute("ALTER SYSTEM SET synchronous_standby_names = 'nobody'").await.unwrap();
        admin.batch_execute("SELECT pg_reload_conf()").await.unwrap();
        let worker =
            Worker::new(client.clone()).registry(Registry::declared_in(file!())).shared_data(Arc::new(Place(url.clone()))).queue("cut");
        let worker = worker.outbox(Relay::postgres(url).unwrap());
        let shown = async || client.inspector().show(&job).await.expect("it is kept");
        let stop = async {
            wait("the job to be put off, as it is not known whether it has committed")
                .on(client.broker())
                .until(async || {
                    let job = shown().await;
                    assert!(job.state != JobState::Dead && job.failures == 0, "{job:?}");
                    job.snoozes > 0
                })
                .await;
            admin.batch_execute("ALTER SYSTEM RESET synchronous_standby_names").await.unwrap();
            admin.batch_execute("SELECT pg_reload_conf()").await.unwrap();
            wait("the job to be done").on(client.broker()).until(async || shown().await.state == JobState::Done).await;
        };
        worker.run(stop).await.unwrap();
        assert_eq!(database.number("SELECT count(*) FROM effects").await, 1);
        assert_eq!(shown().await.failures, 0);
    }
}
