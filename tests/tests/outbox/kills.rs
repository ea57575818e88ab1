//! `kill -9` of the application, the relay, the worker and the database at random moments: each
//! order that the database has is paid once, or twice where it has two rounds.
//!
//! `QUEUE_TEST_EFFECTS` is the number of orders (60), `QUEUE_TEST_SEED` repeats the victims and the
//! pauses of a seed.

use std::time::Duration;

use queue_conformance::patience::wait;
use queue_core::JobState;
use queue_tests::{
    postgres::{Postgres, connect},
    process::Process,
};

use crate::{
    bed::{Database, Place},
    till::Till,
};

pub(crate) fn number(variable: &str) -> Option<u64> {
    std::env::var(variable).ok().map(|text| text.parse().unwrap_or_else(|_| panic!("{variable} `{text}` is not a number")))
}

/// What is killed.
const PARTS: [&str; 3] = ["orders", "relay", "work"];

impl Till {
    /// Kills parts and the database until all orders are there, and some more times.
    async fn suffer(&mut self, random: &mut fastrand::Rng) {
        let orders = number("QUEUE_TEST_EFFECTS").unwrap_or(60);
        // The more there is to do, the longer it may go on between two kills.
        let (longest, many) = (400 * (1 + orders / 5_000).min(8), orders >= 5_000);
        (self.orders, self.at_once, self.step_ms) = if many { (orders, 500, 0) } else { (orders, 1, 15) };
        let mut parts: Vec<Process> = PARTS.iter().map(|part| self.start(part)).collect();
        let (mut kills, mut after) = (0, 0);
        loop {
            tokio::time::sleep(Duration::from_millis(random.u64(20..longest))).await;
            match random.usize(0..PARTS.len() + 1) {
                part if part < PARTS.len() => {
                    parts.remove(part).kill();
                    parts.insert(part, self.start(PARTS[part]));
                    self.free().await;
                }
                _ => {
                    if let Some(server) = &mut self.server {
                        server.restart();
                    }
                }
            }
            kills += 1;
            if self.database.number("SELECT count(*) FROM orders").await >= self.orders.cast_signed() {
                let is_over = self.database.number("SELECT count(*) FROM queue_effects").await >= self.orders.cast_signed();
                after += if many { u32::from(is_over) * 4 } else { 1 };
            }
            if after >= 4 {
                break;
            }
        }
        self.settles().await;
        println!("{} orders, {kills} kills", self.orders);
    }
}

/// The seed of this run.
fn seeded() -> fastrand::Rng {
    let seed = number("QUEUE_TEST_SEED").unwrap_or_else(|| fastrand::u64(..));
    println!("seed {seed}; QUEUE_TEST_SEED={seed} kills the same parts after the same pauses");
    fastrand::Rng::with_seed(seed)
}

mod on_postgres {
    use super::*;

    mod on_redis {
        use super::*;

        #[tokio::test(flavor = "multi_thread", worker_threads = 2)]
        async fn effects_are_commits_whatever_is_killed() {
            let mut till = Till::new(Place::PostgresRedis, Some(Postgres::start())).await;
            till.suffer(&mut seeded()).await;
        }

        /// The server forgets its last commits: orders with their jobs, and never effects whose
        /// jobs have ended.
        #[tokio::test(flavor = "multi_thread", worker_threads = 2)]
        async fn effects_are_commits_in_a_server_that_forgets_commits() {
            let server = Postgres::with(&["fsync=off", "full_page_writes=off", "synchronous_commit=off", "wal_writer_delay=500ms"]);
            let mut till = Till::new(Place::PostgresRedis, Some(server)).await;
            till.suffer(&mut seeded()).await;
        }
    }
}

mod in_sqlite_and_on_redis {
    use super::*;

    #[tokio::test(flavor = "multi_thread", worker_threads = 2)]
    async fn effects_are_commits_whatever_is_killed() {
        Till::new(Place::SqliteRedis, None).await.suffer(&mut seeded()).await;
    }
}

mod in_sqlite_and_on_sqlite {
    use super::*;

    #[tokio::test(flavor = "multi_thread", worker_threads = 2)]
    async fn effects_are_commits_whatever_is_killed() {
        Till::in_files().await.suffer(&mut seeded()).await;
    }
}

/// A COMMIT that waits for a standby which does not come: nobody knows whether the job has
/// committed, and it is not buried meanwhile.
mod cut_off {
    use std::sync::Arc;

    use queue_conformance::conformance::Lane;
    use queue_core::{
        __private::SqliteBroker,
        Client, Done, JobAddress, Registry,
        broker::{BuryReason, Ending},
        inspect::JobRecord,
        prelude::*,
    };
    use queue_outbox::{Error, Outbox, Relay, postgres::Commit};
    use queue_worker::Worker;

    use super::*;
    use crate::commits::context;

    struct Place(String);

    #[task(queue = "cut", max_attempts = 1, timeout = "1s")]
    async fn pay_once(place: Data<Place>, ctx: JobContext) -> Result<Done<()>, Error> {
        let mut client = connect(&place.0).await;
        let outbox = Outbox::postgres(&client).await?;
        let tx = ctx.begin(&outbox, &mut client).await?;
        tx.execute("INSERT INTO effects (n) VALUES (1)", &[]).await?;
        ctx.commit(tx, ()).await
    }

    /// A server whose commits wait, and a job that pays.
    struct Bed {
        _server: Postgres,
        database: Database,
        place: Arc<Place>,
        client: Client,
        job: JobAddress,
        admin: tokio_postgres::Client,
    }

    impl Bed {
        async fn new() -> Bed {
            let server = Postgres::start();
            let database = Database::in_server(&server).await;
            let Database::Postgres { url } = &database else { unreachable!("it is in PostgreSQL") };
            let (place, admin) = (Arc::new(Place(url.clone())), connect(url).await);
            database.execute("CREATE TABLE effects (n BIGINT NOT NULL)").await;
            let client = Client::with_broker(SqliteBroker::open("sqlite::memory:").unwrap());
            let job = pay_once::job().retention(Duration::from_secs(3600)).enqueue(&client).await.unwrap().address().clone();
            let bed = Bed { _server: server, database, place, client, job, admin };
            bed.set("ALTER SYSTEM SET synchronous_standby_names = 'nobody'").await;
            bed
        }

        /// A statement alone each: they are refused in a transaction.
        async fn set(&self, sql: &str) {
            self.admin.batch_execute(sql).await.unwrap();
            self.admin.batch_execute("SELECT pg_reload_conf()").await.unwrap();
        }

        async fn shown(&self) -> JobRecord {
            self.client.inspector().show(&self.job).await.expect("it is kept")
        }

        /// Runs a worker until the job has been put off. Then commits no longer wait, and it runs
        /// until the job is done.
        async fn work(&self) {
            let stop = async {
                wait("the job to be put off, as it is not known whether it has committed")
                    .on(self.client.broker())
                    .until(async || {
                        let job = self.shown().await;
                        assert!(job.state != JobState::Dead && job.failures == 0, "{job:?}");
                        job.snoozes > 0
                    })
                    .await;
                self.set("ALTER SYSTEM RESET synchronous_standby_names").await;
                wait("the job to be done").on(self.client.broker()).until(async || self.shown().await.state == JobState::Done).await;
            };
            let worker = Worker::new(self.client.clone()).registry(Registry::declared_in(file!())).shared_data(self.place.clone());
            worker.queue("cut").outbox(Relay::postgres(&self.place.0).unwrap()).run(stop).await.unwrap();
            assert_eq!(self.database.number("SELECT count(*) FROM effects").await, 1);
            assert_eq!(self.shown().await.failures, 0);
        }
    }

    #[tokio::test(flavor = "multi_thread", worker_threads = 2)]
    async fn on_postgres_a_commit_that_was_cut_off_is_not_buried_and_counts_once() {
        Bed::new().await.work().await;
    }

    /// Its process dies in the COMMIT, which goes on in the server, and the job is buried by
    /// others. Whoever runs it again waits for that commit.
    #[tokio::test(flavor = "multi_thread", worker_threads = 2)]
    async fn on_postgres_a_commit_that_was_cut_off_counts_once_if_its_job_is_buried_and_requeued() {
        let bed = Bed::new().await;
        let mut lane = Lane::on(bed.client.broker(), "cut").await;
        let delivery = lane.claim_one().await;
        let run = tokio::spawn(pay_once(Data::new(bed.place.clone()), context("cut", &delivery, None)));
        let waits = "SELECT count(*) FROM pg_stat_activity WHERE wait_event = 'SyncRep'";
        wait("the COMMIT to wait").until(async || bed.database.number(waits).await == 1).await;
        run.abort();
        assert!(run.await.is_err_and(|error| error.is_cancelled()));
        assert!(lane.end(&delivery, Ending::Bury { reason: BuryReason::Crashed, error: None }).await);
        assert_eq!((bed.shown().await.state, bed.database.number(waits).await), (JobState::Dead, 1));
        bed.client.inspector().requeue(&bed.job).await.unwrap();
        bed.work().await;
    }
}
