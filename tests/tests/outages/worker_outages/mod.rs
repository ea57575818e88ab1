//! A worker whose broker does not answer: it loses nothing, doubles nothing, starts nothing, and
//! says so.

mod queues;
mod scene;

use std::time::Instant;

use queue_conformance::failing::Fault;
use queue_core::{
    broker::{Counter, ProcessId, Register, WorkerMode},
    prelude::*,
};
use queue_tests::{
    patience::{until, wait},
    probe::{ask, free_address, until_ready},
};
use queue_worker::Shutdown;

use self::scene::{LEASE, Scene, cuts_off, gives_way, quick, slow};

#[tokio::test]
async fn answers_that_are_lost_again_and_again_double_nothing_and_lose_nothing() {
    const ROUNDS: u32 = 15;
    const JOBS: u32 = 40;
    let scene = Scene::new();
    let running = scene.start(scene.worker());
    until("its first claim", async || scene.sound.inspector().stats("quick").await.is_ok_and(|stats| stats.lanes > 0)).await;
    for round in 0..ROUNDS {
        // The answers of the next calls are lost, whichever they are: claims, endings, both; then a
        // request.
        scene.cut.fail(Fault::ReplyLost, 1 + round % 4);
        scene.cut.fail(Fault::RequestLost, round % 2);
        scene.sound.enqueue_all((round * JOBS..(round + 1) * JOBS).map(quick::job)).await.unwrap();
        until("the jobs of a round to have run", async || scene.seen.starts() >= ((round + 1) * JOBS) as usize).await;
    }
    let (seen, sound) = (scene.seen.clone(), scene.sound.clone());
    scene.cut.fail(Fault::ReplyLost, 0);
    let stopped = scene.end(running).await;
    assert!(stopped.is_clean(), "{stopped:?}");
    assert_eq!(seen.runs.lock().unwrap().len(), (ROUNDS * JOBS) as usize, "every job runs");
    assert_eq!(seen.starts(), (ROUNDS * JOBS) as usize, "no job runs twice");
    let stats = sound.inspector().stats("quick").await.unwrap();
    assert_eq!(stats.jobs(), 0, "every ending was taken in: {stats:?}");
}

#[tokio::test]
async fn a_worker_out_of_reach_starts_nothing_reports_it_and_comes_back_by_itself() {
    let (scene, address) = (Scene::new(), free_address());
    let running = scene.start(scene.worker().health(address));
    until_ready(address, 200, r#""status":"ok""#).await;
    scene.cut.fail(Fault::RequestLost, u32::MAX);
    until_ready(address, 503, r#""status":"isolated""#).await;
    let health = ask(address, "/health").await;
    assert!(health.starts_with("HTTP/1.1 200 ") && health.contains(r#""live":true,"ready":false"#), "{health}");
    quick::job(1).enqueue(&scene.sound).await.unwrap();
    assert_eq!(scene.seen.starts(), 0);
    scene.cut.fail(Fault::RequestLost, 0);
    scene.seen(1, "start").await;
    until_ready(address, 200, r#""status":"ok""#).await;
    scene.end(running).await;
}

/// What was claimed before the line was cut, and waits for a thread.
#[tokio::test]
async fn a_job_that_was_claimed_before_an_outage_does_not_start_in_it() {
    let scene = Scene::new();
    scene.sound.enqueue_all([1, 2].map(cuts_off::job)).await.unwrap();
    let running = scene.start(scene.worker());
    until("the first to have blocked its thread", async || scene.seen.of(1).len() + scene.seen.of(2).len() >= 2).await;
    let lost = scene.cut.failed();
    until("heartbeats to be lost", async || scene.cut.failed() >= lost + 2).await;
    assert_eq!(scene.seen.starts(), 1);
    scene.cut.fail(Fault::RequestLost, 0);
    until("the second to start", async || !scene.seen.of(1).is_empty() && !scene.seen.of(2).is_empty()).await;
    scene.end(running).await;
}

/// Whoever could not be heard of either is looked at twice once more.
#[tokio::test]
async fn an_outage_between_two_looks_makes_nobody_a_suspect() {
    let scene = Scene::new();
    let broker = scene.sound.broker().clone();
    let silent = Register::lane("quick", ProcessId::random(), Duration::from_millis(1));
    broker.register(&silent).await.unwrap();
    let suspected = async || !broker.overdue("quick", 0, 10).await.unwrap().expired.is_empty();
    until("its lease to end", async || suspected().await).await;
    // Between its first look and the cut there is time for a busy machine.
    let lease = LEASE * 10;
    let (pass, confirm) = (lease / 6, lease / 5);
    let running = scene.start(scene.worker().lease(lease));
    // It looks before it claims.
    quick::job(1).enqueue(&scene.sound).await.unwrap();
    scene.seen(1, "start").await;
    scene.cut.fail(Fault::RequestLost, u32::MAX);
    let cut = Instant::now();
    until("a look to be due that fails", async || cut.elapsed() > pass + confirm).await;
    scene.cut.fail(Fault::RequestLost, 0);
    let healed = Instant::now();
    until("it to be taken for dead", async || !suspected().await).await;
    assert!(healed.elapsed() >= confirm, "{:?}", healed.elapsed());
    scene.end(running).await;
}

#[tokio::test]
async fn an_outage_shorter_than_the_lease_costs_a_running_job_nothing() {
    let scene = Scene::new();
    let job = slow::job(1).enqueue(&scene.sound).await.unwrap();
    // A busy machine hears of the lost heartbeat late.
    let running = scene.start(scene.worker().lease(LEASE * 5));
    scene.seen(1, "start").await;
    scene.cut.fail(Fault::RequestLost, u32::MAX);
    // What is tried within the lease while a job runs is its heartbeats.
    until("a heartbeat to be lost", async || scene.cut.failed() > 0).await;
    scene.cut.fail(Fault::RequestLost, 0);
    scene.seen.open.send_replace(true);
    until("the end of the job", async || job.status().await.unwrap() == Some(queue_core::broker::JobState::Done)).await;
    assert_eq!(scene.seen.of(1), ["start", "end"]);
    scene.end(running).await;
}

#[tokio::test]
async fn in_isolation_only_a_task_that_asks_for_it_is_cancelled() {
    let scene = Scene::new();
    slow::job(1).enqueue(&scene.sound).await.unwrap();
    gives_way::job(2).enqueue(&scene.sound).await.unwrap();
    // Before its claim, from which on its lease runs, whenever the cut is.
    let before = Instant::now();
    let running = scene.start(scene.worker());
    scene.seen(1, "start").await;
    scene.seen(2, "start").await;
    scene.cut.fail(Fault::RequestLost, u32::MAX);
    scene.seen(2, "gave way").await;
    assert!(before.elapsed() > LEASE / 2, "not before its lease is over");
    assert_eq!(scene.seen.of(1), ["start"]);
    scene.seen.open.send_replace(true);
    scene.seen(1, "end").await;
    scene.end(running).await;
}

#[tokio::test]
async fn a_lane_that_was_cut_off_is_forgotten_and_cannot_change_its_successors_work() {
    let scene = Scene::new();
    let job = slow::job(1).enqueue(&scene.sound).await.unwrap();
    let lost = scene.start(scene.worker());
    scene.seen(1, "start").await;
    scene.cut.fail(Fault::RequestLost, u32::MAX);

    let successor = Shutdown::new();
    let rival = scene.worker_of(scene.sound.clone()).lease(LEASE);
    let rival = tokio::spawn(rival.run_with(successor.clone()));
    until("the second start", async || scene.seen.starts() == 2).await;
    // The first one's handler is told as soon as its worker hears of it.
    scene.cut.fail(Fault::RequestLost, 0);
    scene.seen(1, "LeaseLost").await;
    scene.seen.open.send_replace(true);
    scene.seen(1, "end").await;
    until("the end of the job", async || job.status().await.unwrap() == Some(queue_core::broker::JobState::Done)).await;
    successor.drain();
    rival.await.unwrap().unwrap();
    let record = scene.sound.inspector().show(job.address()).await.unwrap();
    assert_eq!(record.failures, 0, "a lost lease is no failed attempt");
    let seen = scene.seen.clone();
    scene.end(lost).await;
    assert_eq!(seen.of(1), ["start", "start", "LeaseLost", "end"]);
}

#[tokio::test]
async fn what_a_worker_held_when_its_broker_forgot_it_runs_again_and_is_charged_nothing() {
    let scene = Scene::new();
    let job = slow::job(1).enqueue(&scene.sound).await.unwrap();
    // One queue alone, so that it is the lane with the job that is forgotten.
    let running = scene.start(scene.worker().queue("slow").concurrency(1));
    scene.seen(1, "start").await;
    scene.cut.fail(Fault::Forgotten, 1);
    scene.seen(1, "LeaseLost").await;
    until("the second start", async || scene.seen.starts() == 2).await;
    assert_eq!(scene.sound.inspector().show(job.address()).await.unwrap().crashes, 0);
    let stats = scene.sound.inspector().stats("slow").await.unwrap();
    assert_eq!((stats.total(Counter::Forgotten), stats.total(Counter::Crashed)), (1, 0), "{stats:?}");
    scene.seen.open.send_replace(true);
    scene.seen(1, "end").await;
    scene.end(running).await;
}

/// A machine that was suspended for longer than its leases, or a failover that lost data. A quiet
/// worker sends no turns, which would bring it back.
#[tokio::test]
async fn a_quiet_worker_that_was_forgotten_is_known_again_and_can_be_asked_to_go_on() {
    let scene = Scene::new();
    let running = scene.start(scene.worker());
    let inspector = scene.sound.inspector();
    let alone = async || inspector.workers().await.unwrap().pop().filter(|worker| worker.load.is_some());
    let ask = async |mode| match alone().await {
        Some(worker) => inspector.ask_worker(&worker, mode, "ada").await.is_ok(),
        None => false,
    };
    let is_quiet = async || alone().await.is_some_and(|worker| worker.mode() == WorkerMode::Quiet && worker.queues == ["quick", "slow"]);
    until("it to hear the request", async || ask(WorkerMode::Quiet).await).await;
    until("it to be quiet in both queues", is_quiet).await;
    let registered = scene.cut.registered();
    // One heartbeat of each queue.
    scene.cut.fail(Fault::Forgotten, 2);
    until("it to register again in both queues", async || scene.cut.registered() >= registered + 2).await;
    quick::job(1).enqueue(&scene.sound).await.unwrap();
    tokio::time::sleep(LEASE * 2).await;
    assert!(is_quiet().await, "it is known by its new lanes");
    assert_eq!(scene.seen.starts(), 0);
    until("it to hear the request", async || ask(WorkerMode::Works).await).await;
    scene.seen(1, "start").await;
    scene.end(running).await;
}

#[tokio::test]
async fn a_worker_without_a_broker_still_stops_in_time() {
    let scene = Scene::new();
    let running = scene.start(scene.worker().grace(Duration::from_secs(600)));
    until("its first claim", async || scene.sound.inspector().stats("quick").await.is_ok_and(|stats| stats.lanes > 0)).await;
    scene.cut.fail(Fault::RequestLost, u32::MAX);
    until("a poll that nobody answers", async || scene.cut.failed() > 0).await;
    scene.shutdown.drain();
    wait("the worker to end").end_of(running).await.unwrap();
}

#[tokio::test]
async fn an_ending_that_cannot_be_handed_in_is_reported() {
    let scene = Scene::new();
    slow::job(1).enqueue(&scene.sound).await.unwrap();
    let running = scene.start(scene.worker().grace(Duration::from_secs(1)));
    scene.seen(1, "start").await;
    scene.cut.fail(Fault::RequestLost, u32::MAX);
    scene.seen.open.send_replace(true);
    scene.seen(1, "end").await;
    scene.shutdown.drain();
    let stopped = wait("the worker ends").end_of(running).await.unwrap();
    assert_eq!((stopped.finished, stopped.unconfirmed, stopped.is_clean()), (1, 1, false));
}
