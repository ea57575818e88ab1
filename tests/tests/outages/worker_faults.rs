//! A worker on a broker that fails on demand.

use std::{
    collections::BTreeMap,
    sync::{Arc, Mutex},
    time::Duration,
};

use queue_conformance::failing::{FailingBroker, Fault};
use queue_core::{
    __private::SqliteBroker,
    Registry,
    broker::{Counter, ProcessId, Register, Turn},
    prelude::*,
};
use queue_tests::patience::until;
use queue_worker::Worker;

#[derive(Default)]
struct Runs(Mutex<BTreeMap<u32, u32>>);

#[task(queue = "shaky")]
async fn count(number: u32, runs: Data<Runs>) {
    *runs.0.lock().unwrap().entry(number).or_default() += 1;
}

#[task(queue = "shaky_retry", backoff(base = "1ms", max = "1ms"))]
async fn fail_once(number: u32, runs: Data<Runs>, ctx: JobContext) -> Result<(), String> {
    *runs.0.lock().unwrap().entry(number).or_default() += 1;
    if ctx.attempt() == 1 { Err("the first time".to_owned()) } else { Ok(()) }
}

/// Requests and replies are lost all the time: nothing is lost or doubled, and no attempt is
/// charged for it.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn lost_requests_and_replies_neither_lose_nor_double_a_job() {
    const JOBS: u32 = 300;
    let inner = SqliteBroker::open("sqlite::memory:").unwrap();
    let broker = FailingBroker::new(inner.clone());
    let (steady, shaky) = (Client::with_broker(inner), Client::with_broker(broker.clone()));
    let runs = Arc::new(Runs::default());
    steady.enqueue_all((0..JOBS).map(count::job)).await.unwrap();
    steady.enqueue_all((JOBS..JOBS + 50).map(fail_once::job)).await.unwrap();
    let (stop, stopped) = tokio::sync::oneshot::channel::<()>();
    let worker =
        Worker::new(shaky).registry(Registry::declared_in(file!())).shared_data(runs.clone()).concurrency(7).lease(Duration::from_secs(20));
    let worker = worker.queue("shaky").queue("shaky_retry");
    let working = tokio::spawn(worker.run(async { drop(stopped.await) }));
    let inspector = steady.inspector();
    let done = async |queue: &str| inspector.stats(queue).await.unwrap().total(Counter::Done);
    until("the worker to be at work", || async { done("shaky").await > 0 }).await;
    until("all jobs to be done", || async {
        let fault = [Fault::RequestLost, Fault::ReplyLost][fastrand::usize(..2)];
        // More would only be slow: each failure of a turn doubles the pause before it is sent
        // again.
        broker.fail(fault, u32::from(fastrand::u8(..4) == 0));
        done("shaky").await == u64::from(JOBS) && done("shaky_retry").await == 50
    })
    .await;
    broker.fail(Fault::RequestLost, 0);
    broker.fail(Fault::ReplyLost, 0);
    drop(stop);
    working.await.unwrap().unwrap();
    let runs = runs.0.lock().unwrap().clone();
    assert!((0..JOBS).all(|number| runs[&number] == 1), "{runs:?}");
    assert!((JOBS..JOBS + 50).all(|number| runs[&number] == 2), "{runs:?}");
    for queue in ["shaky", "shaky_retry"] {
        let stats = inspector.stats(queue).await.unwrap();
        assert_eq!(stats.jobs(), 0, "{stats:?}");
        assert_eq!((stats.total(Counter::Reclaimed), stats.total(Counter::Crashed)), (0, 0), "{stats:?}");
    }
    assert_eq!(inspector.stats("shaky_retry").await.unwrap().total(Counter::Failed), 50);
}

/// A worker that loses its broker for a while goes on by itself.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_worker_outlives_an_outage_of_its_broker() {
    let inner = SqliteBroker::open("sqlite::memory:").unwrap();
    let broker = FailingBroker::new(inner.clone());
    let steady = Client::with_broker(inner);
    let runs = Arc::new(Runs::default());
    let (stop, stopped) = tokio::sync::oneshot::channel::<()>();
    let worker =
        Worker::new(Client::with_broker(broker.clone())).registry(Registry::declared_in(file!())).shared_data(runs.clone()).queue("shaky");
    let working = tokio::spawn(worker.run(async { drop(stopped.await) }));
    for round in 1..=3 {
        steady.enqueue_all((0..20).map(|number| count::job(round * 100 + number))).await.unwrap();
        until("this round to be done", || async {
            steady.inspector().stats("shaky").await.unwrap().total(Counter::Done) == u64::from(round * 20)
        })
        .await;
        broker.fail(Fault::RequestLost, u32::MAX);
        let before = broker.failed();
        until("several calls to have failed", async || broker.failed() >= before + 4).await;
        broker.fail(Fault::RequestLost, 0);
    }
    drop(stop);
    assert!(working.await.unwrap().unwrap().is_clean());
}

/// What keeps the queue in order dies again and again: jobs run all the same, and it does its work
/// when it can.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_duty_that_panics_is_started_again_while_the_others_go_on() {
    let inner = SqliteBroker::open("sqlite::memory:").unwrap();
    let broker = FailingBroker::new(inner.clone());
    let steady = Client::with_broker(inner);
    let done = async || steady.inspector().stats("shaky").await.unwrap().total(Counter::Done);
    count::job(0).enqueue(&steady).await.unwrap();
    let lease = Duration::from_millis(50);
    let dead = steady.broker().register(&Register::lane("shaky", ProcessId::random(), lease)).await.unwrap().name;
    let claimed = steady.broker().turn(&Turn::new("shaky", dead, 1, lease).claim(1)).await.unwrap();
    assert_eq!(claimed.deliveries.len(), 1, "somebody claims a job and is never heard of again");

    broker.fail(Fault::Panic, u32::MAX);
    let (stop, stopped) = tokio::sync::oneshot::channel::<()>();
    let worker = Worker::new(Client::with_broker(broker.clone()))
        .registry(Registry::declared_in(file!()))
        .shared_data(Arc::new(Runs::default()))
        .queue("shaky");
    let working = tokio::spawn(worker.lease(Duration::from_secs(3)).run(async { drop(stopped.await) }));
    until("a duty to have died thrice", async || broker.failed() >= 3).await;
    steady.enqueue_all((1..=20).map(count::job)).await.unwrap();
    until("the others' work to go on", async || done().await == 20).await;
    broker.fail(Fault::Panic, 0);
    until("the duty to have taken the job back", async || done().await == 21).await;
    drop(stop);
    assert!(working.await.unwrap().unwrap().is_clean());
}
