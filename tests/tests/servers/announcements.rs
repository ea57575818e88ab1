//! What is announced on Redis and Valkey, and what is made of it.

use std::{
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
    },
    time::{Duration, Instant},
};

use queue_conformance::conformance::{Lane, Producer, envelope};
use queue_core::{
    __private::RedisBroker,
    JobId, Registry,
    broker::{Counter, DynBroker, JobLimits, NewJob},
    inspect::{GroupName, LimitKey},
    prelude::*,
};
use queue_tests::{
    on_servers,
    patience::{WatchBroker, until},
    server::{Kind, Server},
};
use queue_worker::{Shutdown, Worker};

on_servers! {
    work_of_this_process_is_expected_before_the_server_has_answered
    nobody_looks_again_for_what_he_has_found
    a_queue_that_limits_block_costs_no_more_than_an_idle_one
}

const QUEUE: &str = "announcements";

#[task(queue = "announcements")]
async fn count(runs: Data<AtomicU64>) {
    runs.fetch_add(1, Ordering::Relaxed);
}

/// Its claim can then travel right behind it.
async fn work_of_this_process_is_expected_before_the_server_has_answered(kind: Kind) {
    let server = Server::start(kind);
    let broker: DynBroker = RedisBroker::connect(&server.url()).await.unwrap();
    let mut producer = Producer::on(&broker, QUEUE).await;
    let mut lane = Lane::on(&broker, QUEUE).await;
    let mut hints = broker.hints(QUEUE);
    // Whoever begins to listen hears of what he may have missed.
    hints.next().await;
    for number in 0..3 {
        assert_eq!(lane.claim(10).await.len(), usize::from(number > 0), "the lane holds what came before, and nothing waits");
        assert!(lane.claim(10).await.is_empty());
        server.pause();
        let job = NewJob::new(JobId::make(), envelope(&number.to_string()));
        let heard = async {
            hints.next().await;
            server.resume();
        };
        let stored = producer.stored(vec![job]);
        tokio::time::timeout(Duration::from_secs(20), async { tokio::join!(stored, heard) }).await.expect("it is announced at once");
        // So does the server, a moment later.
        hints.next().await;
    }
}

/// A lone job is enqueued, claimed and finished, by a request each: what is announced of it after
/// its claim moves nobody.
async fn nobody_looks_again_for_what_he_has_found(kind: Kind) {
    let server = Server::start(kind);
    let client = Client::connect(&server.url()).await.unwrap().watched();
    let elsewhere = Client::connect(&server.url()).await.unwrap().watched();
    let (runs, shutdown) = (Arc::new(AtomicU64::new(0)), Shutdown::new());
    let worker = Worker::new(client.clone()).registry(Registry::empty()).register::<count>().shared_data(runs.clone());
    let running = tokio::spawn(worker.concurrency(10).run_with(shutdown.clone()));
    for producer in [client, elsewhere] {
        let inspector = producer.inspector();
        let mut done = inspector.stats(QUEUE).await.map_or(0, |stats| stats.total(Counter::Done));
        let mut one = async || {
            producer.enqueue(count::job()).await.unwrap();
            done += 1;
            let is_done = async || inspector.stats(QUEUE).await.unwrap().total(Counter::Done) == done;
            until("the end of the job", is_done).await;
        };
        // The first ones find names for everybody.
        one().await;
        one().await;
        let mut tries = Vec::new();
        while tries.last() != Some(&60) {
            assert!(tries.len() < 10, "scripts for 20 jobs: {tries:?}");
            let before = scripts(&server);
            for _ in 0..20 {
                one().await;
            }
            // The janitor may come by, or a heartbeat, or a poll where the machine is slow: not
            // each time.
            tries.push(scripts(&server) - before);
        }
    }
    shutdown.drain();
    running.await.unwrap().unwrap();
}

/// Hundreds of groups wait for a limit whose only slot is taken: a worker with free slots polls,
/// and does not ask again and again.
async fn a_queue_that_limits_block_costs_no_more_than_an_idle_one(kind: Kind) {
    const SCRIPTS: u64 = 8;
    let server = Server::start(kind);
    let client = Client::connect(&server.url()).await.unwrap();
    let broker = client.broker().clone();
    let blocked = |group: String| {
        let mut job = NewJob::new(JobId::make(), envelope(&group));
        job.group = Some(GroupName::new(&group).unwrap());
        job.limits = JobLimits::new(vec![LimitKey::of("api", b"")], 1).map(Box::new);
        job
    };
    let mut producer = Producer::on(&broker, QUEUE).await;
    let mut holder = Lane::on(&broker, QUEUE).await;
    client.inspector().set_limit(QUEUE, "api", |rule| rule.concurrency = Some(1)).await.unwrap();
    producer.stored(vec![blocked("holder".to_owned())]).await;
    assert_eq!(holder.claim(1).await.len(), 1);
    producer.stored((0..400).map(|n| blocked(format!("group-{n}"))).collect()).await;
    let (runs, shutdown) = (Arc::new(AtomicU64::new(0)), Shutdown::new());
    let worker = Worker::new(client.clone()).registry(Registry::empty()).register::<count>().shared_data(runs);
    let running = tokio::spawn(worker.concurrency(10).run_with(shutdown.clone()));
    // The first claims shut the groups, 700 at most at a time.
    let settled = scripts(&server) + 15;
    until("the worker to be there", async || scripts(&server) >= settled).await;
    let (began, before) = (Instant::now(), scripts(&server));
    until("some polls and heartbeats", async || scripts(&server) >= before + SCRIPTS).await;
    let took = began.elapsed();
    assert!(took > Duration::from_secs(1), "{SCRIPTS} scripts in {took:?}");
    shutdown.drain();
    running.await.unwrap().unwrap();
}

/// How many scripts that write were called.
fn scripts(server: &Server) -> u64 {
    let stats = server.command(&["INFO", "commandstats"]);
    let calls = stats.lines().find_map(|line| line.strip_prefix("cmdstat_evalsha:calls=")).and_then(|rest| rest.split(',').next());
    calls.and_then(|calls| calls.parse().ok()).unwrap_or_default()
}
