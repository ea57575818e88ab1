//! Problems that a worker reports before it starts.

use std::{sync::Arc, time::Duration};

use crate::common::{self, memory};
use queue_core::{DataNeed, Inject, Registry, prelude::*};
use queue_worker::{QueueConfig, Worker, WorkerError};

struct Pool;

#[task(queue = "plain")]
async fn plain() {}

#[task(queue = "needy")]
async fn needs_a_pool(pool: Data<Pool>) {
    let _ = pool;
}

/// An injected value that is neither `Data` nor `JobContext`.
struct Lent(&'static str);

impl Inject for Lent {
    fn inject(context: &JobContext) -> Result<Self, Outcome> {
        Data::<Pool>::inject(context)?;
        match context.header("borrower") {
            Some(_) => Ok(Lent("lent")),
            None => Err(Outcome::Bury("nobody borrows it".to_owned())),
        }
    }

    fn needs() -> Vec<DataNeed> {
        vec![DataNeed::of::<Pool>()]
    }
}

#[task(queue = "lending", retention = "1h")]
async fn borrows(#[inject] lent: Lent) -> Result<String, std::io::Error> {
    Ok(lent.0.to_owned())
}

/// A value behind a trait.
trait Stock: Send + Sync {
    fn left(&self) -> u64;
}

impl Stock for u64 {
    fn left(&self) -> u64 {
        *self
    }
}

struct Prices(u64);

#[task(queue = "shared", retention = "1h")]
async fn counts(stock: Data<dyn Stock>, prices: Data<Prices>) -> Result<u64, std::io::Error> {
    Ok(stock.left() * prices.0)
}

#[task(queue = "shared-twice")]
async fn counts_twice(prices: Data<Arc<Prices>>) {
    let _ = prices;
}

async fn problem(shape: impl FnOnce(Worker) -> Worker) -> String {
    let worker = shape(Worker::new(memory().await).registry(Registry::declared_in(file!())).data(Pool));
    match worker.run(std::future::pending()).await {
        Err(WorkerError::Setup(problems)) => problems.join("\n"),
        other => panic!("it started: {other:?}"),
    }
}

#[tokio::test]
async fn each_setting_that_cannot_work_is_named_with_its_value_and_advice() {
    type Case = (fn(Worker) -> Worker, [&'static str; 2]);
    let cases: [Case; 17] = [
        (|worker| worker.concurrency(0), ["concurrency `0`", "use 1 or more"]),
        (|worker| worker.concurrency(1_000_000), ["concurrency `1000000`", "several workers"]),
        (|worker| worker.lease(Duration::from_millis(10)), ["lease `10ms`", "use 300ms or more"]),
        (|worker| worker.lease(Duration::MAX), ["lease `", "is more than 86400s"]),
        (|worker| worker.grace(Duration::MAX), ["grace `", "is more than"]),
        (|worker| worker.max_attempts(0), ["max_attempts `0`", "1 means"]),
        (|worker| worker.max_crashes(0), ["max_crashes `0`", "1 means"]),
        (|worker| worker.timeout(Duration::ZERO), ["timeout `0s`", "leave it out"]),
        (|worker| worker.timeout(Duration::MAX), ["timeout `", "leave it out"]),
        (|worker| worker.producer_retention(Duration::from_secs(1)), ["producer_retention `1s`", "use 60s or more"]),
        (|worker| worker.dead_retention(Duration::MAX), ["dead_retention `", "use less"]),
        (|worker| worker.id_retention(Duration::MAX), ["id_retention `", "use less"]),
        (|worker| worker.queue(QueueConfig::new("plain").weight(0)), ["weight `0` of queue `plain`", "use 1 or more"]),
        (|worker| worker.queue(QueueConfig::new("plain").limit(0)), ["limit `0` of queue `plain`", "use 1 or more"]),
        (|worker| worker.queue("plain").queue("plain"), ["queue `plain`", "named twice"]),
        (|worker| worker.release(""), ["release (QUEUE_RELEASE or `Worker::release`) is empty", "`v42`"]),
        (|worker| worker.release("v".repeat(300)), ["release has 300 bytes", "at most 256"]),
    ];
    for (shape, parts) in cases {
        let problem = problem(shape).await;
        assert!(parts.iter().all(|part| problem.contains(part)), "{problem}");
    }
}

#[tokio::test]
async fn a_backoff_that_shrinks_is_refused() {
    let backoff = Backoff { base: Duration::from_secs(60), max: Duration::from_secs(1) };
    let problem = problem(|worker| worker.backoff(backoff)).await;
    assert!(problem.contains("base `60s`") && problem.contains("max `1s`"), "{problem}");
}

#[tokio::test]
async fn a_missing_value_is_named_with_the_tasks_that_take_it() {
    let worker = Worker::new(memory().await).registry(Registry::declared_in(file!()));
    let problem = worker.check().unwrap_err().to_string();
    assert!(problem.contains("Pool") && problem.contains("`needs_a_pool`") && problem.contains(".data("), "{problem}");
    // No task of the other queue needs the value.
    worker.queue("plain").check().unwrap();
}

#[tokio::test]
async fn a_value_given_as_an_arc_is_found_by_its_type_and_a_trait_object_by_its_trait() {
    let client = memory().await;
    let missing = Worker::new(client.clone()).queue("shared").check().unwrap_err().to_string();
    assert!(missing.contains("call `.shared_data(..)` with an `Arc<dyn ") && missing.contains("Prices"), "{missing}");
    let stock: Arc<dyn Stock> = Arc::new(3_u64);
    let job = counts::job().enqueue(&client).await.unwrap();
    let worker = Worker::new(client.clone()).registry(Registry::empty()).register::<counts>();
    let worker = worker.queue("shared").shared_data(stock).data(Arc::new(Prices(5)));
    worker.run_until_idle().await.unwrap();
    assert_eq!(job.result().await.unwrap(), JobResult::Done(15));
    // In the other order, the types cannot be matched.
    let twice = Worker::new(client).queue("shared-twice").shared_data(Arc::new(Prices(5))).check().unwrap_err().to_string();
    assert!(twice.contains("take a `Data<") && twice.contains("Prices>`"), "{twice}");
}

/// Compiles with each form of a closure, and with a function.
#[cfg(feature = "cli")]
#[test]
fn the_setup_of_a_binary_is_an_async_closure_or_one_that_returns_a_future_or_a_function() {
    async fn setup(worker: Worker) -> Result<Worker, Box<dyn std::error::Error + Send + Sync>> {
        Ok(worker.concurrency(1))
    }
    let jobs = 7;
    drop(queue_worker::run(async |worker| Ok(worker.concurrency(jobs))));
    drop(queue_worker::run(|worker| async move { Ok(worker.concurrency(jobs).data("Hello".to_owned())) }));
    drop(queue_worker::run(async move |worker| {
        let stock = "17".parse::<u64>()?;
        Ok(worker.data(stock))
    }));
    drop(queue_worker::run(setup));
}

#[tokio::test]
async fn a_type_of_ones_own_is_injected_and_its_needs_are_checked() {
    let client = memory().await;
    let problem = Worker::new(client.clone()).registry(Registry::declared_in(file!())).queue("lending").check().unwrap_err().to_string();
    assert!(problem.contains("Pool") && problem.contains("`borrows`"), "{problem}");
    let sound = borrows::job().header("borrower", "Ada").enqueue(&client).await.unwrap();
    let without = borrows::job().enqueue(&client).await.unwrap();
    let worker = Worker::new(client).registry(Registry::declared_in(file!())).queue("lending").data(Pool);
    let ended = async {
        let patience = Duration::from_secs(20);
        assert_eq!(sound.wait(patience).await.unwrap(), JobResult::Done("lent".to_owned()));
        assert_eq!(without.wait(patience).await.unwrap(), JobResult::Dead("buried: nobody borrows it".to_owned()));
    };
    worker.run(ended).await.unwrap();
}

#[tokio::test]
async fn a_worker_without_tasks_does_not_start() {
    let problem = problem(|worker| worker.registry(Registry::empty())).await;
    assert!(problem.contains("no task") && problem.contains(".register::<"), "{problem}");
}

#[tokio::test]
async fn a_task_that_is_registered_by_hand_is_known() {
    let worker = Worker::new(memory().await).registry(Registry::empty()).register::<plain>();
    worker.check().unwrap();
    assert!(worker.tasks().get("plain").is_some());
}

#[tokio::test]
async fn an_address_that_is_taken_is_reported() {
    let taken = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let address = taken.local_addr().unwrap();
    let problem = problem(|worker| worker.queue("plain").health(address)).await;
    assert!(problem.contains(&address.to_string()), "{problem}");
    drop(taken);
}

/// A worker registers its release and the names of its tasks.
#[tokio::test]
async fn a_worker_registers_with_its_release_and_its_tasks() {
    let client = memory().await;
    let (stop, stopped) = tokio::sync::oneshot::channel::<()>();
    let worker = Worker::new(client.clone()).registry(Registry::empty()).register::<plain>().register::<borrows>();
    let worker = worker.data(Pool).queue("plain").release("v42");
    let running = tokio::spawn(worker.run(async move { drop(stopped.await) }));
    common::until_registered(&client, "plain").await;
    let workers = client.inspector().workers().await.unwrap();
    let [worker] = &workers[..] else { panic!("one worker is listed: {workers:?}") };
    assert_eq!((worker.release.as_str(), worker.pid, worker.queues.join(" ")), ("v42", std::process::id(), "plain".to_owned()));
    assert_eq!((worker.tasks.join(" "), worker.task_count), ("borrows plain".to_owned(), 2));
    assert!(!worker.host.is_empty() && worker.since.is_some() && worker.lanes >= 1, "{worker:?}");
    drop(stop);
    running.await.unwrap().unwrap();
}
