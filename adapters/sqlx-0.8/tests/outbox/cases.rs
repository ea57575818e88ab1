//! The tests for both databases. They are compiled once for each.

use std::time::Duration;

use queue_core::{Client, JobContext, JobId, JobState, RawJob, Registry, TestContext, prelude::*};
use queue_outbox::{Done, Error, Outbox, Result};
use queue_worker::Worker;

use super::{BEGIN, Commit, Db, EnqueueAllIn, EnqueueIn, FILE, FULL, JobTransaction, OTHER, Place, PublishIn, open, pay};

#[task(queue = "mail")]
pub(super) async fn send_receipt(_order: i64) {}

#[derive(Event)]
#[event(topic = "orders")]
struct OrderPlaced {
    order: i64,
}

impl Place {
    pub(super) async fn number(&self, sql: &'static str) -> i64 {
        sqlx::query_scalar(sql).fetch_one(&self.pool).await.unwrap()
    }

    /// Executes one or several statements.
    pub(super) async fn execute(&self, sql: &str) {
        use sqlx::Executor;
        let mut connection = self.pool.acquire().await.unwrap();
        // sqlx 0.9 accepts only constants.
        let sql: &'static str = sql.to_owned().leak();
        connection.execute(sqlx::raw_sql(sql)).await.unwrap();
    }

    async fn begin(&self) -> sqlx::Transaction<'static, Db> {
        self.pool.begin_with(BEGIN).await.unwrap()
    }

    /// Begins a transaction with an effect.
    async fn effect(&self, outbox: &Outbox, context: &JobContext) -> JobTransaction {
        let mut tx = context.begin(outbox, &self.pool).await.unwrap();
        sqlx::query("UPDATE accounts SET balance = balance - 10").execute(&mut **tx).await.unwrap();
        tx
    }

    pub(super) async fn with_account(&self) -> Outbox {
        self.execute("CREATE TABLE accounts (id BIGINT NOT NULL, balance BIGINT NOT NULL); INSERT INTO accounts VALUES (7, 100)").await;
        open(&self.pool).await.unwrap()
    }

    pub(super) async fn balance(&self) -> i64 {
        self.number("SELECT balance FROM accounts").await
    }
}

async fn until(what: &str, mut holds: impl AsyncFnMut() -> bool) {
    let all = async {
        while !holds().await {
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
    };
    tokio::time::timeout(Duration::from_secs(120), all).await.unwrap_or_else(|_| panic!("{what}: not within two minutes"));
}

#[tokio::test]
async fn a_job_is_enqueued_if_and_only_if_its_transaction_commits() {
    let place = Place::new().await;
    let outbox = open(&place.pool).await.unwrap();
    for commits in [false, true] {
        let mut tx = place.begin().await;
        send_receipt::job(7).delay(Duration::ZERO).enqueue_in(&outbox, &mut tx).await.unwrap();
        (0..1_500).map(send_receipt::job).enqueue_all_in(&outbox, &mut tx).await.unwrap();
        OrderPlaced { order: 7 }.publish_in(&outbox, &mut tx).await.unwrap();
        if commits { tx.commit().await.unwrap() } else { tx.rollback().await.unwrap() }
    }
    assert_eq!(place.number("SELECT count(*) FROM queue_outbox").await, 1_502);
    let client = Client::connect("sqlite://:memory:").await.unwrap();
    let ready = async || client.inspector().stats("mail").await.map_or(0, |stats| stats.count(JobState::Ready));
    place.relay().run(&client, until("the jobs to be sent", async || ready().await == 1_501)).await;
    assert_eq!((ready().await, place.number("SELECT count(*) FROM queue_outbox").await), (1_501, 0));
}

#[tokio::test]
async fn one_job_that_cannot_be_enqueued_stores_none() {
    let place = Place::new().await;
    let outbox = open(&place.pool).await.unwrap();
    let mut tx = place.begin().await;
    let jobs = [RawJob::new("a", vec![0x80]), RawJob::new("b", vec![0x80]).queue("not a queue")];
    assert!(matches!(jobs.enqueue_all_in(&outbox, &mut tx).await, Err(Error::Queue(_))));
    tx.commit().await.unwrap();
    place.execute(&format!("UPDATE queue_database SET full_queues = {FULL}")).await;
    let mut tx = place.begin().await;
    let full = send_receipt::job(7).enqueue_in(&outbox, &mut tx).await;
    assert!(matches!(&full, Err(Error::Full { queue }) if queue == "mail"), "{full:?}");
    let jobs = ["first", "mail"].map(|queue| RawJob::new("a", vec![0x80]).queue(queue));
    let full = jobs.enqueue_all_in(&outbox, &mut tx).await;
    assert!(matches!(&full, Err(Error::Full { queue }) if queue == "mail"), "{full:?}");
    tx.commit().await.unwrap();
    assert_eq!(place.number("SELECT count(*) FROM queue_outbox").await, 0);
}

#[tokio::test]
async fn another_database_and_missing_tables_are_named() {
    let (place, other) = (Place::new().await, Place::new().await);
    let outbox = open(&other.pool).await.unwrap();
    let mut tx = place.begin().await;
    assert!(matches!(send_receipt::job(7).enqueue_in(&outbox, &mut tx).await, Err(Error::OtherDatabase)));
    drop(tx);
    let foreign = Outbox::with_database(OTHER, "public", vec![1], 1).unwrap();
    let mut tx = place.begin().await;
    assert!(matches!(send_receipt::job(7).enqueue_in(&foreign, &mut tx).await, Err(Error::OtherDatabase)));
    drop(tx);
    let foreign = TestContext::new().build().begin(&foreign, &place.pool).await.map(drop);
    assert!(matches!(foreign, Err(Error::OtherDatabase)), "{foreign:?}");
    place.execute("DROP TABLE queue_outbox; DROP TABLE queue_database").await;
    assert!(matches!(open(&place.pool).await, Err(Error::NoTables { .. })));
}

/// With a worker that looks up endings.
#[tokio::test]
async fn effects_commit_once_together_with_the_ending_of_their_job() {
    let place = Place::new().await;
    let outbox = place.with_account().await;
    let mut tx = place.begin().await;
    let address = pay::job(7).retention(Duration::from_secs(3600)).enqueue_in(&outbox, &mut tx).await.unwrap();
    tx.commit().await.unwrap();
    outbox.wake();
    let client = Client::connect("sqlite://:memory:").await.unwrap();
    let asked = client.clone();
    let done = async move {
        let all = async {
            while !matches!(asked.inspector().show(&address).await, Ok(job) if job.state == JobState::Done) {
                tokio::time::sleep(Duration::from_millis(20)).await;
            }
        };
        tokio::time::timeout(Duration::from_secs(120), all).await.expect("the job is done within two minutes");
    };
    let worker = Worker::new(client).registry(Registry::declared_in(FILE)).outbox(place.relay());
    worker
        .data(outbox)
        .data(place.pool.clone())
        .run(done)
        .await
        .unwrap();
    let endings = place.number("SELECT count(*) FROM queue_effects").await;
    assert_eq!((place.balance().await, endings), (90, 1));
}

#[tokio::test]
async fn of_two_runs_of_a_job_one_commits() {
    let place = Place::new().await;
    let outbox = place.with_account().await;
    let id = JobId::make();
    let run = |claim| TestContext::new().id(id.clone()).claim(claim).build();
    let (first, second) = (run(7), run(8));
    // It returns without a commit.
    drop(place.effect(&outbox, &first).await);
    assert_eq!(place.balance().await, 100);
    let tx = place.effect(&outbox, &first).await;
    let done: Result<Done<i64>> = first.commit(tx, 5).await;
    assert!(done.is_ok(), "{done:?}");
    let tx = place.effect(&outbox, &first).await;
    let again: Result<Done<i64>> = first.commit(tx, 5).await;
    assert!(matches!(again, Err(Error::CommittedTwice { .. })), "{again:?}");
    let tx = place.effect(&outbox, &second).await;
    let late: Result<Done<i64>> = second.commit_and_repeat(tx, Duration::ZERO).await;
    assert!(matches!(late, Err(Error::CommittedElsewhere { .. })), "{late:?}");
    assert_eq!((place.balance().await, place.number("SELECT count(*) FROM queue_effects").await), (90, 1));
}

#[tokio::test]
async fn a_commit_is_refused_by_name() {
    let (place, other) = (Place::new().await, Place::new().await);
    let outbox = place.with_account().await;
    let context = || TestContext::new().build();
    let elsewhere = open(&other.pool).await.unwrap();
    let ctx = context();
    let tx = place.effect(&elsewhere, &ctx).await;
    let refused: Result<Done<()>> = ctx.commit(tx, ()).await;
    assert!(matches!(refused, Err(Error::OtherDatabase)), "{refused:?}");
    place.execute("UPDATE queue_database SET version = 9").await;
    let ctx = context();
    let tx = place.effect(&outbox, &ctx).await;
    let refused: Result<Done<()>> = ctx.commit(tx, ()).await;
    assert!(matches!(refused, Err(Error::TooNew { found: 9, .. })), "{refused:?}");
    place.execute("UPDATE queue_database SET version = 1; ALTER TABLE queue_effects RENAME TO elsewhere").await;
    let ctx = context();
    let tx = place.effect(&outbox, &ctx).await;
    let refused: Result<Done<()>> = ctx.commit(tx, ()).await;
    assert!(matches!(refused, Err(Error::NoTables { .. })), "{refused:?}");
    place.execute("ALTER TABLE elsewhere RENAME TO queue_effects").await;
    assert_eq!(place.balance().await, 100);
    // The effects are stored without an ending.
    let ctx = context();
    let mut tx = place.effect(&outbox, &ctx).await;
    sqlx::query("COMMIT").execute(&mut **tx).await.unwrap();
    let refused: Result<Done<()>> = ctx.commit(tx, ()).await;
    assert!(matches!(refused, Err(Error::Ended { .. })), "{refused:?}");
    assert_eq!((place.balance().await, place.number("SELECT count(*) FROM queue_effects").await), (90, 0));
}
