//! Completion: effects commit together with the ending of their job, once, whatever happens to its
//! runs.

use std::{
    collections::BTreeMap,
    sync::{Arc, Mutex},
    time::Duration,
};

use queue_conformance::{conformance::Lane, patience::wait};
use queue_core::{
    __private::{Completion, ContextInit, Envelope, effects_key},
    Client, Done, JobAddress, JobContext, JobState, Registry, TestContext,
    broker::{BuryReason, Delivery, DynBroker, Ending},
    prelude::*,
};
use queue_outbox::{Dialect, Error, Outbox, OutboxChange, Relay, postgres, sqlite};
use queue_tests::postgres::connect;
use queue_worker::Worker;
use rusqlite::Connection;
use tokio_postgres::IsolationLevel;

use crate::bed::{Bed, Database, Place, job, open, places};

/// What the tasks work with, and how often each of their jobs has run.
#[derive(Debug)]
struct Shop {
    place: String,
    runs: Mutex<BTreeMap<u64, u32>>,
}

impl Shop {
    fn of(database: &Database) -> Arc<Shop> {
        let place = match database {
            Database::Postgres { url } => url.clone(),
            Database::Sqlite { path, .. } => path.display().to_string(),
        };
        Arc::new(Shop { place, runs: Mutex::default() })
    }

    /// A run begins: how many there were before.
    fn begins(&self, n: u64) -> u32 {
        let mut runs = self.runs.lock().unwrap();
        let run = runs.entry(n).or_default();
        *run += 1;
        *run - 1
    }

    fn runs(&self, n: u64) -> u32 {
        self.runs.lock().unwrap().get(&n).copied().unwrap_or_default()
    }
}

const EFFECT: &str = "INSERT INTO effects (n) VALUES ($1)";

/// `how`: what the first run does.
#[task(queue = "pay", max_attempts = 3, backoff(base = "10ms", max = "10ms"))]
async fn pay_by_server(n: u64, how: String, shop: Data<Shop>, ctx: JobContext) -> Result<Done<String>, Error> {
    use postgres::Commit;
    let before = shop.begins(n);
    let mut client = connect(&shop.place).await;
    let outbox = Outbox::postgres(&client).await?;
    let tx = ctx.begin(&outbox, &mut client).await?;
    tx.execute(EFFECT, &[&n.cast_signed()]).await?;
    if how == "fails before" && before == 0 {
        return Err(Error::Late(Duration::ZERO));
    }
    if how == "repeats" && before < 3 {
        return ctx.commit_and_repeat(tx, Duration::ZERO).await;
    }
    let done = ctx.commit(tx, format!("paid {n}")).await?;
    match how.as_str() {
        "fails" => Err(Error::Late(Duration::ZERO)),
        "panics" => panic!("after the commit"),
        "commits twice" => {
            let tx = ctx.begin(&outbox, &mut client).await?;
            tx.execute(EFFECT, &[&n.cast_signed()]).await?;
            let again: Result<Done<String>, Error> = ctx.commit(tx, "again".to_owned()).await;
            assert!(matches!(again, Err(Error::CommittedTwice { .. })), "{again:?}");
            again
        }
        _ => Ok(done),
    }
}

#[task(blocking, queue = "pay", max_attempts = 3, backoff(base = "10ms", max = "10ms"))]
fn pay_by_file(n: u64, how: String, shop: Data<Shop>, ctx: JobContext) -> Result<Done<String>, Error> {
    use sqlite::Commit;
    let before = shop.begins(n);
    let mut connection = open(shop.place.as_ref());
    let outbox = Outbox::sqlite(&connection)?;
    let tx = ctx.begin(&outbox, &mut connection)?;
    tx.execute(EFFECT, [n.cast_signed()])?;
    if how == "fails before" && before == 0 {
        return Err(Error::Late(Duration::ZERO));
    }
    if how == "repeats" && before < 3 {
        return ctx.commit_and_repeat(tx, Duration::ZERO);
    }
    let done = ctx.commit(tx, format!("paid {n}"))?;
    match how.as_str() {
        "fails" => Err(Error::Late(Duration::ZERO)),
        "panics" => panic!("after the commit"),
        "commits twice" => {
            let tx = ctx.begin(&outbox, &mut connection)?;
            tx.execute(EFFECT, [n.cast_signed()])?;
            let again: Result<Done<String>, Error> = ctx.commit(tx, "again".to_owned());
            assert!(matches!(again, Err(Error::CommittedTwice { .. })), "{again:?}");
            again
        }
        _ => Ok(done),
    }
}

impl Bed {
    async fn with_effects(&self) -> Arc<Shop> {
        self.database.execute("CREATE TABLE effects (n BIGINT NOT NULL)").await;
        Shop::of(&self.database)
    }

    /// Enqueues a payment, kept for an hour.
    async fn pay(&self, n: u64, how: &str, id: Option<&str>) -> JobAddress {
        macro_rules! enqueue {
            ($job:expr) => {{
                let job = $job.retention(Duration::from_secs(3600));
                let job = match id {
                    Some(id) => job.id(id),
                    None => job,
                };
                job.enqueue(&self.client).await.expect("it is enqueued").address().clone()
            }};
        }
        match self.database {
            Database::Postgres { .. } => enqueue!(pay_by_server::job(n, how.to_owned())),
            Database::Sqlite { .. } => enqueue!(pay_by_file::job(n, how.to_owned())),
        }
    }

    fn worker(&self, shop: &Arc<Shop>) -> Worker {
        let worker = Worker::new(self.client.clone()).registry(Registry::declared_in(file!())).shared_data(shop.clone()).queue("pay");
        worker.outbox(self.database.relay())
    }

    /// Runs a worker until these jobs are done.
    async fn work(&self, shop: &Arc<Shop>, jobs: &[JobAddress]) {
        let done = wait("the jobs to be done").on(self.client.broker()).until(async || {
            for job in jobs {
                if self.client.inspector().show(job).await.is_ok_and(|job| job.state != JobState::Done) {
                    return false;
                }
            }
            true
        });
        self.worker(shop).run(done).await.expect("the worker ends");
    }

    async fn effects(&self) -> i64 {
        self.database.number("SELECT count(*) FROM effects").await
    }

    async fn endings(&self) -> i64 {
        self.database.number("SELECT count(*) FROM queue_effects").await
    }

    /// The result of a job that is done.
    async fn result(&self, job: &JobAddress) -> String {
        let result = match self.database {
            Database::Postgres { .. } => self.client.handle::<pay_by_server>(job.clone()).result().await,
            Database::Sqlite { .. } => self.client.handle::<pay_by_file>(job.clone()).result().await,
        };
        match result.expect("it can be asked for") {
            JobResult::Done(result) => result,
            other => panic!("{other:?}"),
        }
    }

    /// The context of a run of a job that is claimed by hand: of a zombie, for example.
    fn context(delivery: &Delivery, before: Option<Vec<u8>>) -> JobContext {
        context("pay", delivery, before)
    }

    /// A run of a payment by hand.
    async fn run_by_hand(&self, shop: &Arc<Shop>, n: u64, context: JobContext) -> Result<Done<String>, Error> {
        match self.database {
            Database::Postgres { .. } => pay_by_server(n, String::new(), Data::new(shop.clone()), context).await,
            Database::Sqlite { .. } => {
                let shop = Data::new(shop.clone());
                tokio::task::spawn_blocking(move || pay_by_file(n, String::new(), shop, context)).await.unwrap()
            }
        }
    }
}

/// The context of a run of a job that is claimed by hand from a queue.
pub(crate) fn context(queue: &str, delivery: &Delivery, before: Option<Vec<u8>>) -> JobContext {
    let envelope = Envelope::decode(&delivery.envelope).unwrap();
    let key = effects_key(queue, &delivery.id, envelope.enqueued_ms);
    let mut init = ContextInit::new(queue, &*envelope.task, delivery.id.clone(), Arc::default());
    init.lease.set(std::time::Instant::now() + Duration::from_secs(3600));
    init.claim = delivery.claim;
    init.completion = Some(Arc::new(Completion::new(key, delivery.odd, before, None)));
    JobContext::new(init)
}

places! {
    a_job_that_commits_runs_once_and_gives_its_result
    what_has_committed_is_done_whatever_its_run_returns
    a_run_that_fails_before_its_commit_is_rolled_back_and_retried
    a_job_that_had_committed_is_not_run_again
    of_two_runs_one_commits
    a_zombie_that_commits_late_changes_nothing
    a_requeue_of_a_job_that_had_committed_replays_its_ending
    a_job_that_reuses_a_given_id_runs_again
    a_job_that_repeats_commits_each_round_once
    the_ending_of_a_round_is_replayed_and_the_next_round_runs
    a_commit_is_refused_before_anything_is_written
    an_ending_that_cannot_be_looked_up_charges_nothing
    endings_are_removed_when_they_are_old_and_their_jobs_are_gone
    of_several_relays_one_removes_endings
    a_job_of_the_outbox_commits_and_its_row_sent_twice_is_one_job
}

async fn a_job_that_commits_runs_once_and_gives_its_result(bed: Bed) {
    let shop = bed.with_effects().await;
    let mut jobs = Vec::new();
    for n in 0..20 {
        jobs.push(bed.pay(n, "", None).await);
    }
    bed.work(&shop, &jobs).await;
    assert_eq!((bed.effects().await, bed.endings().await), (20, 20));
    assert_eq!(bed.result(&jobs[7]).await, "paid 7");
    assert!((0..20).all(|n| shop.runs(n) == 1));
}

async fn what_has_committed_is_done_whatever_its_run_returns(bed: Bed) {
    let shop = bed.with_effects().await;
    let hows = ["fails", "panics", "commits twice"];
    let mut jobs = Vec::new();
    for (n, how) in hows.iter().enumerate() {
        jobs.push(bed.pay(n as u64, how, None).await);
    }
    bed.work(&shop, &jobs).await;
    assert_eq!((bed.effects().await, bed.endings().await), (3, 3));
    for (n, job) in jobs.iter().enumerate() {
        assert_eq!((bed.result(job).await, shop.runs(n as u64)), (format!("paid {n}"), 1));
        assert_eq!(bed.client.inspector().show(job).await.unwrap().failures, 0, "{}", hows[n]);
    }
}

async fn a_run_that_fails_before_its_commit_is_rolled_back_and_retried(bed: Bed) {
    let shop = bed.with_effects().await;
    let job = bed.pay(1, "fails before", None).await;
    bed.work(&shop, &[job]).await;
    assert_eq!((bed.effects().await, bed.endings().await, shop.runs(1)), (1, 1, 2));
}

/// As after a crash between the commit and the ack.
async fn a_job_that_had_committed_is_not_run_again(bed: Bed) {
    let shop = bed.with_effects().await;
    let job = bed.pay(1, "", None).await;
    let broker: DynBroker = bed.broker.clone();
    let mut lane = Lane::on(&broker, "pay").await;
    let delivery = lane.claim_one().await;
    let done = bed.run_by_hand(&shop, 1, Bed::context(&delivery, None)).await;
    assert!(done.is_ok(), "{done:?}");
    assert!(lane.end(&delivery, Ending::Return).await);
    bed.work(&shop, std::slice::from_ref(&job)).await;
    assert_eq!((bed.effects().await, bed.endings().await, shop.runs(1)), (1, 1, 1));
    assert_eq!(bed.result(&job).await, "paid 1");
}

async fn of_two_runs_one_commits(bed: Bed) {
    let shop = bed.with_effects().await;
    bed.pay(1, "", None).await;
    let broker: DynBroker = bed.broker.clone();
    let delivery = Lane::on(&broker, "pay").await.claim_one().await;
    let runs = (0..4).map(|_| bed.run_by_hand(&shop, 1, Bed::context(&delivery, None)));
    let ended: Vec<Result<Done<String>, Error>> = futures_util::future::join_all(runs).await;
    assert_eq!(ended.iter().filter(|ended| ended.is_ok()).count(), 1, "{ended:?}");
    assert_eq!(ended.iter().filter(|ended| matches!(ended, Err(Error::CommittedElsewhere { .. }))).count(), 3, "{ended:?}");
    assert_eq!((bed.effects().await, bed.endings().await, shop.runs(1)), (1, 1, 4));
}

async fn a_zombie_that_commits_late_changes_nothing(bed: Bed) {
    let shop = bed.with_effects().await;
    let job = bed.pay(1, "", None).await;
    let broker: DynBroker = bed.broker.clone();
    let mut lane = Lane::on(&broker, "pay").await;
    let delivery = lane.claim_one().await;
    let zombie = Bed::context(&delivery, None);
    assert!(lane.end(&delivery, Ending::Return).await);
    bed.work(&shop, &[job]).await;
    let late = bed.run_by_hand(&shop, 1, zombie).await;
    assert!(matches!(late, Err(Error::CommittedElsewhere { .. })), "{late:?}");
    // One that knows that it has lost its lease is refused before the INSERT.
    let knowing = Bed::context(&delivery, None);
    knowing.cancel(queue_core::CancelCause::LeaseLost);
    let late = bed.run_by_hand(&shop, 1, knowing).await;
    assert!(matches!(late, Err(Error::LeaseLost { .. })), "{late:?}");
    assert_eq!((bed.effects().await, bed.endings().await), (1, 1));
}

async fn a_requeue_of_a_job_that_had_committed_replays_its_ending(bed: Bed) {
    let shop = bed.with_effects().await;
    let job = bed.pay(1, "", None).await;
    let broker: DynBroker = bed.broker.clone();
    let mut lane = Lane::on(&broker, "pay").await;
    let delivery = lane.claim_one().await;
    drop(bed.run_by_hand(&shop, 1, Bed::context(&delivery, None)).await.unwrap());
    assert!(lane.end(&delivery, Ending::Bury { reason: BuryReason::Crashed, error: None }).await);
    bed.client.inspector().requeue(&job).await.unwrap();
    bed.work(&shop, std::slice::from_ref(&job)).await;
    assert_eq!((bed.effects().await, shop.runs(1), bed.result(&job).await.as_str()), (1, 1, "paid 1"));
}

async fn a_job_that_reuses_a_given_id_runs_again(bed: Bed) {
    let shop = bed.with_effects().await;
    for n in 0..3 {
        let job = bed.pay(n, "", Some("order-17")).await;
        bed.work(&shop, std::slice::from_ref(&job)).await;
        assert_eq!(bed.result(&job).await, format!("paid {n}"));
        bed.client.inspector().delete(&job).await.unwrap();
    }
    assert_eq!((bed.effects().await, bed.endings().await), (3, 3));
}

async fn a_job_that_repeats_commits_each_round_once(bed: Bed) {
    let shop = bed.with_effects().await;
    let job = bed.pay(1, "repeats", None).await;
    bed.work(&shop, std::slice::from_ref(&job)).await;
    assert_eq!((bed.effects().await, shop.runs(1), bed.endings().await), (4, 4, 1), "a row for all rounds");
    assert_eq!(bed.result(&job).await, "paid 1");
}

/// As after a crash between the commit of a round and its ack, in odd and in even rounds.
async fn the_ending_of_a_round_is_replayed_and_the_next_round_runs(bed: Bed) {
    let shop = bed.with_effects().await;
    let job = bed.pay(1, "repeats", None).await;
    let broker: DynBroker = bed.broker.clone();
    let mut lane = Lane::on(&broker, "pay").await;
    let mut before = None;
    for round in 0..2 {
        let delivery = lane.claim_one().await;
        assert_eq!(delivery.odd, round == 1);
        let context = Bed::context(&delivery, before.clone());
        // How it repeats is in the stored parameters.
        let run = match bed.database {
            Database::Postgres { .. } => pay_by_server(1, "repeats".to_owned(), Data::new(shop.clone()), context.clone()).await,
            Database::Sqlite { .. } => {
                let (shop, context) = (Data::new(shop.clone()), context.clone());
                tokio::task::spawn_blocking(move || pay_by_file(1, "repeats".to_owned(), shop, context)).await.unwrap()
            }
        };
        assert!(run.is_ok(), "{run:?}");
        before = Some(context.completion().unwrap().committed().unwrap().encode().unwrap());
        // The ending was not stored: the run after it replays it, and takes the job to the next
        // round.
        let ending = if round == 0 { Ending::Repeat { delay: Duration::ZERO } } else { Ending::Return };
        assert!(lane.end(&delivery, ending).await);
    }
    bed.work(&shop, std::slice::from_ref(&job)).await;
    assert_eq!((bed.effects().await, shop.runs(1), bed.endings().await), (4, 4, 1));
}

async fn a_commit_is_refused_before_anything_is_written(bed: Bed) {
    let shop = bed.with_effects().await;
    let of_other_task = || JobContext::new(ContextInit::new("pay", "other", queue_core::JobId::make(), Arc::default()));
    let elsewhere = || {
        let mut init = ContextInit::new("pay", "other", queue_core::JobId::make(), Arc::default());
        init.completion = Some(Arc::new(Completion::new([0; 24], false, None, Some(vec![b"another".to_vec()]))));
        init.lease.set(std::time::Instant::now() + Duration::from_secs(3600));
        JobContext::new(init)
    };
    let other_task = bed.run_by_hand(&shop, 1, of_other_task()).await;
    assert!(matches!(&other_task, Err(Error::OtherTask { task }) if task == "other"), "{other_task:?}");
    let not_of_worker = bed.run_by_hand(&shop, 1, elsewhere()).await;
    assert!(matches!(not_of_worker, Err(Error::NotOfWorker { .. })), "{not_of_worker:?}");
    bed.database.execute("UPDATE queue_database SET version = 9").await;
    assert!(matches!(bed.run_by_hand(&shop, 1, TestContext::new().build()).await, Err(Error::TooNew { found: 9, .. })));
    bed.database.execute("UPDATE queue_database SET version = 1; ALTER TABLE queue_effects RENAME TO elsewhere").await;
    let missing = bed.run_by_hand(&shop, 1, TestContext::new().build()).await;
    assert!(matches!(missing, Err(Error::NoTables { .. })), "{missing:?}");
    bed.database.execute("ALTER TABLE elsewhere RENAME TO queue_effects").await;
    match &bed.database {
        Database::Postgres { url } => refused_by_server(url).await,
        Database::Sqlite { path, .. } => refused_by_file(&mut open(path)),
    }
    assert_eq!((bed.effects().await, bed.endings().await), (0, 0));
    // A worker that could not look endings up does not start.
    let worker = Worker::new(bed.client.clone()).registry(Registry::declared_in(file!())).shared_data(shop).queue("pay");
    let problem = worker.check().unwrap_err().to_string();
    assert!(problem.contains("`pay_by_file`, `pay_by_server`") && problem.contains("call `.outbox(..)`"), "{problem}");
}

async fn refused_by_server(url: &str) {
    use postgres::Commit;
    let context = || TestContext::new().build();
    let mut client = connect(url).await;
    let outbox = Outbox::postgres(&client).await.unwrap();
    let Database::Postgres { url: other } = Database::postgres().await else { unreachable!() };
    let mut other = connect(&other).await;
    let ctx = context();
    let tx = ctx.begin(&outbox, &mut other).await.unwrap();
    assert!(matches!(ctx.commit(tx, ()).await, Err(Error::OtherDatabase)));
    let ctx = context();
    let tx = ctx.begin(&outbox, &mut client).await.unwrap();
    tx.batch_execute("COMMIT").await.unwrap();
    let ended = ctx.commit(tx, ()).await;
    assert!(matches!(ended, Err(Error::Ended { .. })), "{ended:?}");
    let tx = context().begin_with(&outbox, &mut client, IsolationLevel::Serializable).await.unwrap();
    let level: String = tx.query_one("SHOW transaction_isolation", &[]).await.unwrap().get(0);
    assert_eq!(level, "serializable");
    drop(tx);
    let with_sqlite = Outbox::with_database(Dialect::Sqlite, "main", vec![0; 16], 1).unwrap();
    assert!(matches!(context().begin(&with_sqlite, &mut client).await, Err(Error::OtherDatabase)));
    // What the server forgets at a crash is stored at once in this transaction, unless the
    // application has it otherwise.
    client.batch_execute("SET synchronous_commit = off").await.unwrap();
    for (outbox, expected) in [(outbox.clone(), "on"), (outbox.power_loss_may_lose_effects(), "off")] {
        let tx = context().begin(&outbox, &mut client).await.unwrap();
        let set: String = tx.query_one("SHOW synchronous_commit", &[]).await.unwrap().get(0);
        assert_eq!(set, expected);
    }
}

fn refused_by_file(connection: &mut Connection) {
    use sqlite::Commit;
    let context = || TestContext::new().build();
    let outbox = Outbox::sqlite(connection).unwrap();
    let other = Outbox::with_database(Dialect::Sqlite, "main", vec![0; 16], 1).unwrap();
    let ctx = context();
    let tx = ctx.begin(&other, connection).unwrap();
    assert!(matches!(ctx.commit(tx, ()), Err(Error::OtherDatabase)));
    let ctx = context();
    let tx = ctx.begin(&outbox, connection).unwrap();
    tx.execute_batch("COMMIT").unwrap();
    assert!(matches!(ctx.commit(tx, ()), Err(Error::Ended { .. })));
    connection.pragma_update(None, "synchronous", "NORMAL").unwrap();
    let refused = context().begin(&outbox, connection).map(drop);
    assert!(matches!(refused, Err(Error::Synchronous { found: 1 })), "{refused:?}");
    context().begin(&outbox.power_loss_may_lose_effects(), connection).unwrap();
    connection.pragma_update(None, "synchronous", "FULL").unwrap();
    let folder = queue_conformance::folder::folder();
    let beside = folder.path().join("beside.db");
    let ctx = context();
    let tx = ctx.begin(&outbox, connection).unwrap();
    tx.execute("ATTACH ?1 AS beside", [beside.to_str().unwrap()]).unwrap();
    let refused = ctx.commit(tx, ()).map(drop);
    assert!(matches!(&refused, Err(Error::Attached { name, .. }) if name == "beside"), "{refused:?}");
    let refused = context().begin(&outbox, connection).map(drop);
    assert!(matches!(&refused, Err(Error::Attached { name, .. }) if name == "beside"), "{refused:?}");
}

async fn an_ending_that_cannot_be_looked_up_charges_nothing(bed: Bed) {
    let shop = bed.with_effects().await;
    bed.database.execute("ALTER TABLE queue_effects RENAME TO elsewhere").await;
    let job = bed.pay(1, "", None).await;
    let snoozed =
        wait("the job to be put off").on(bed.client.broker()).until(async || bed.client.inspector().show(&job).await.unwrap().snoozes > 0);
    bed.worker(&shop).run(snoozed).await.unwrap();
    let record = bed.client.inspector().show(&job).await.unwrap();
    assert_eq!((record.failures, shop.runs(1), bed.effects().await), (0, 0, 0));
    bed.database.execute("ALTER TABLE elsewhere RENAME TO queue_effects").await;
    bed.work(&shop, &[job]).await;
    assert_eq!((bed.effects().await, bed.endings().await, shop.runs(1)), (1, 1, 1));
}

/// 1,200 endings, more than two pages, of which the job of one is dead and may be requeued, and one
/// is young.
async fn endings_are_removed_when_they_are_old_and_their_jobs_are_gone(bed: Bed) {
    let shop = bed.with_effects().await;
    let dead = bed.pay(1, "", None).await;
    let broker: DynBroker = bed.broker.clone();
    let mut lane = Lane::on(&broker, "pay").await;
    let delivery = lane.claim_one().await;
    drop(bed.run_by_hand(&shop, 1, Bed::context(&delivery, None)).await.unwrap());
    assert!(lane.end(&delivery, Ending::Bury { reason: BuryReason::Crashed, error: None }).await);
    let old = match bed.database {
        Database::Postgres { .. } => "now() - interval '8 days'",
        Database::Sqlite { .. } => "CAST((julianday('now') - 2440587.5) * 86400000 AS INTEGER) - 8 * 86400000",
    };
    // That of the dead job, with other keys: of jobs that were enqueued in 1970.
    let key = match bed.database {
        Database::Postgres { .. } => "decode(lpad(to_hex(n), 48, '0'), 'hex')",
        Database::Sqlite { .. } => "unhex(printf('%048x', n))",
    };
    let copies = format!(
        "INSERT INTO queue_effects (job, ending) WITH RECURSIVE n(n) AS (SELECT 1 UNION ALL SELECT n + 1 FROM n WHERE n < 1200) \
         SELECT {key}, e.ending FROM n, queue_effects e; UPDATE queue_effects SET at = {old};"
    );
    bed.database.execute(&copies).await;
    bed.pay(2, "", None).await;
    let young = lane.claim_one().await;
    drop(bed.run_by_hand(&shop, 2, Bed::context(&young, None)).await.unwrap());
    lane.ack(&[young]).await;
    assert_eq!(bed.endings().await, 1202);
    bed.database.count_takes().await;
    let until = wait("the endings to be removed").on(bed.client.broker()).until(async || bed.endings().await <= 2);
    bed.database.relay().run(&bed.client, until).await;
    assert_eq!(bed.endings().await, 2);
    let takes = bed.database.number("SELECT count(*) FROM takes").await;
    let free = "SELECT count(*) FROM queue_relay WHERE queue = '' AND holder IS NULL AND until IS NULL";
    assert_eq!((takes, bed.database.number(free).await), (4, 1), "each page prolongs the lease, and the relay gives it back");
    // What is left of the dead one is what a requeue needs.
    bed.client.inspector().requeue(&dead).await.unwrap();
    bed.work(&shop, &[dead]).await;
    assert_eq!((bed.effects().await, shop.runs(1)), (2, 1));
}

/// The second relay leaves the endings to the first one while this has the lease.
async fn of_several_relays_one_removes_endings(bed: Bed) {
    let shop = bed.with_effects().await;
    bed.pay(1, "", None).await;
    let broker: DynBroker = bed.broker.clone();
    let mut lane = Lane::on(&broker, "pay").await;
    let delivery = lane.claim_one().await;
    drop(bed.run_by_hand(&shop, 1, Bed::context(&delivery, None)).await.unwrap());
    lane.ack(&[delivery]).await;
    let (old, key) = match bed.database {
        Database::Postgres { .. } => ("now() - interval '8 days'", "decode(lpad('7', 48, '0'), 'hex')"),
        Database::Sqlite { .. } => {
            ("CAST((julianday('now') - 2440587.5) * 86400000 AS INTEGER) - 8 * 86400000", "unhex(printf('%048x', 7))")
        }
    };
    bed.database
        .execute(&format!("UPDATE queue_effects SET at = {old}, job = {key}; CREATE TABLE kept AS SELECT * FROM queue_effects"))
        .await;
    let removed = || wait("the ending to be removed").until(async || bed.endings().await == 0);
    let first = bed.run_relay();
    removed().await;
    first.abort();
    bed.database.execute("INSERT INTO queue_effects SELECT * FROM kept").await;
    bed.put(1).await;
    bed.drain().await;
    assert_eq!(bed.endings().await, 1, "the first relay has the lease");
    bed.database.execute("UPDATE queue_relay SET until = NULL").await;
    bed.database.relay().run(&bed.client, removed()).await;
}

/// The time of its row is that of its enqueue, also when it is sent a second time.
async fn a_job_of_the_outbox_commits_and_its_row_sent_twice_is_one_job(bed: Bed) {
    let shop = bed.with_effects().await;
    let job = match &bed.database {
        Database::Postgres { url } => {
            use postgres::EnqueueIn;
            let mut client = connect(url).await;
            let outbox = Outbox::postgres(&client).await.unwrap();
            let tx = client.transaction().await.unwrap();
            let job = pay_by_server::job(1, String::new()).retention(Duration::from_secs(3600)).enqueue_in(&outbox, &tx).await.unwrap();
            tx.commit().await.unwrap();
            job
        }
        Database::Sqlite { path, .. } => {
            use sqlite::EnqueueIn;
            let mut connection = open(path);
            let outbox = Outbox::sqlite(&connection).unwrap();
            let tx = connection.transaction().unwrap();
            let job = pay_by_file::job(1, String::new()).retention(Duration::from_secs(3600)).enqueue_in(&outbox, &tx).unwrap();
            tx.commit().unwrap();
            job
        }
    };
    bed.database.execute("CREATE TABLE saved AS SELECT * FROM queue_outbox").await;
    bed.work_until_shown(&shop, &job).await;
    bed.client.inspector().delete(&job).await.unwrap();
    // As after a restore: the row is there again, and its job has ended without a record.
    let again = match bed.database {
        Database::Postgres { .. } => "INSERT INTO queue_outbox OVERRIDING SYSTEM VALUE SELECT * FROM saved",
        Database::Sqlite { .. } => "INSERT INTO queue_outbox SELECT * FROM saved",
    };
    bed.database.execute(again).await;
    bed.work_until_shown(&shop, &job).await;
    assert_eq!((bed.effects().await, bed.endings().await, shop.runs(1)), (1, 1, 1));
}

impl Bed {
    /// Runs a worker, with its relay, until this job is done.
    async fn work_until_shown(&self, shop: &Arc<Shop>, job: &JobAddress) {
        let client: &Client = &self.client;
        let done = wait("the job to be done")
            .on(client.broker())
            .until(async || client.inspector().show(job).await.is_ok_and(|job| job.state == JobState::Done));
        self.worker(shop).run(done).await.expect("the worker ends");
    }
}

/// A job whose ending is hidden looks like one that has not committed.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn on_postgres_endings_that_row_level_security_hides_are_an_error() {
    let database = Database::postgres().await;
    let role = format!("relay_{:016x}", fastrand::u64(..));
    let hidden = format!(
        "CREATE ROLE {role} LOGIN; GRANT SELECT ON queue_database, queue_effects TO {role}; \
         INSERT INTO queue_effects (job, ending) VALUES (decode('{:048x}', 'hex'), 'done'); \
         ALTER TABLE queue_effects ENABLE ROW LEVEL SECURITY",
        7
    );
    database.execute(&hidden).await;
    let Database::Postgres { url } = &database else { unreachable!("it is in PostgreSQL") };
    let endings = Relay::endings(&[Relay::postgres(&url.replace("//queue@", &format!("//{role}@"))).unwrap()]).unwrap();
    let mut key = [0; 24];
    key[23] = 7;
    let found = endings.find(&key).await;
    assert!(matches!(&found, Err(problem) if problem.contains("row-level security")), "{found:?}");
    database.execute(&format!("ALTER TABLE queue_effects OWNER TO {role}")).await;
    assert_eq!(endings.find(&key).await.unwrap().ending.as_deref(), Some(b"done".as_slice()));
}

/// Each role has the privileges that transactions.md lists.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn on_postgres_the_privileges_of_the_guide_suffice() {
    let bed = Bed::new(Place::PostgresSqlite).await;
    bed.with_effects().await;
    let Database::Postgres { url } = &bed.database else { unreachable!("it is in PostgreSQL") };
    let number = fastrand::u64(..);
    let [shop, payer, relay] = ["shop", "payer", "relay"].map(|role| format!("{role}_{number:016x}"));
    let [by_shop, by_payer, by_relay] = [&shop, &payer, &relay].map(|role| url.replace("//queue@", &format!("//{role}@")));
    bed.database
        .execute(&format!(
            "CREATE ROLE {shop} LOGIN; CREATE ROLE {payer} LOGIN; CREATE ROLE {relay} LOGIN; \
             GRANT SELECT ON queue_database TO {shop}, {payer}; GRANT INSERT ON queue_outbox TO {shop}, {payer}; \
             GRANT SELECT, INSERT, UPDATE ON queue_effects TO {payer}; GRANT INSERT ON effects TO {payer}; \
             GRANT SELECT, UPDATE ON queue_database TO {relay}; GRANT SELECT, UPDATE, DELETE ON queue_outbox TO {relay}; \
             GRANT SELECT, INSERT, UPDATE ON queue_relay TO {relay}; GRANT SELECT, INSERT, UPDATE, DELETE ON queue_effects TO {relay}"
        ))
        .await;
    // The application, and why a row was refused.
    let mut client = connect(&by_shop).await;
    let outbox = Outbox::postgres(&client).await.unwrap();
    let tx = client.transaction().await.unwrap();
    postgres::EnqueueIn::enqueue_in(job(), &outbox, &tx).await.unwrap();
    postgres::EnqueueAllIn::enqueue_all_in([job().group("a"), job().group("b")], &outbox.in_commit_order(), &tx).await.unwrap();
    tx.commit().await.unwrap();
    outbox.notify(&client).await;
    // The relay, and what operators do.
    let by_relay = Database::Postgres { url: by_relay };
    assert_eq!(by_relay.drain(&bed.client).await.sent, 3);
    bed.database.execute("UPDATE queue_database SET full_queues = '{pay}'").await;
    let tx = client.transaction().await.unwrap();
    let full = postgres::EnqueueIn::enqueue_in(job().queue("pay"), &outbox, &tx).await;
    assert!(matches!(full, Err(Error::Full { .. })), "{full:?}");
    drop(tx);
    bed.put(2).await;
    let operated = by_relay.relay();
    let rows = operated.rows("default", false, 10).await.unwrap();
    assert_eq!((operated.queues().await.unwrap().len(), rows.len()), (1, 2));
    bed.database.execute(&format!("UPDATE queue_outbox SET refused = 'why' WHERE seq = {}", rows[1].id.seq)).await;
    let dropped = OutboxChange::Drop(vec![rows[0].id.clone()]);
    for change in [OutboxChange::Retry(Vec::new()), OutboxChange::Release, dropped] {
        operated.change("default", &change).await.unwrap();
    }
    // A worker, of which a round repeats.
    let paid = Shop::of(&Database::Postgres { url: by_payer });
    let jobs = [bed.pay(1, "", None).await, bed.pay(2, "repeats", None).await];
    let registry = Registry::declared_in(file!());
    let worker = Worker::new(bed.client.clone()).registry(registry).shared_data(paid.clone()).queue("pay").outbox(by_relay.relay());
    let done = wait("the jobs to be done").on(bed.client.broker()).until(async || {
        let state = async |job: &JobAddress| bed.client.inspector().show(job).await.unwrap().state;
        state(&jobs[0]).await == JobState::Done && state(&jobs[1]).await == JobState::Done && bed.database.waiting().await == 0
    });
    worker.run(done).await.unwrap();
    assert_eq!((bed.effects().await, bed.database.waiting().await), (5, 0));
    let marked = bed.database.number("SELECT cardinality(full_queues)::int8 FROM queue_database").await;
    assert_eq!(marked, 0, "the relay has set its own bound");
    // Before a burial, and the cleanup.
    assert_eq!(Relay::endings(&[by_relay.relay()]).unwrap().settled(&[7; 24]).await, Ok(None));
    let old = "UPDATE queue_effects SET at = now() - interval '8 days', job = decode(lpad(to_hex(n), 48, '0'), 'hex') \
        FROM (SELECT job AS of, row_number() OVER () AS n FROM queue_effects) o WHERE job = of";
    bed.database.execute(old).await;
    let removed = wait("the endings to be removed").until(async || bed.endings().await == 0);
    by_relay.relay().run(&bed.client, removed).await;
}
