//! Producers and workers go on while the servers behind three sentinels fail, and fail over.
//!
//! Every test prints how long after the promotion of the new master the first job started, and
//! fails if that is too long.

use std::{
    future::Future,
    sync::Arc,
    task::{Context, Poll, Wake, Waker},
    thread::Thread,
    time::{Duration, SystemTime},
};

use queue_core::{JobResult, Registry, broker::JobState, prelude::*};
use queue_tests::{
    fleet::{Fleet, resumed},
    history::{History, JOURNALED},
    on_servers,
    patience::{WatchBroker, wait_for},
    sentinel::{Promotion, Sentinels},
    server::Kind,
};
use queue_worker::Worker;
use tokio::sync::Semaphore;

/// A server that is not heard of for so long is taken for dead. Tests of one that is wait for it.
const DOWN_AFTER: Duration = Duration::from_millis(1500);

/// The same where the failover is planned: a machine that stands still for a moment is no dead
/// server.
const PLANNED_DOWN_AFTER: Duration = Duration::from_secs(5);

/// A key of no queue.
const KEY: &str = "written";

const QUEUE: &str = "chronicle";

on_servers! {
    a_careful_failover_loses_and_doubles_nothing
    an_unprepared_failover_costs_only_what_the_old_master_took_in_after_it
    masters_that_are_killed_cost_only_what_their_replicas_lacked
    a_replica_that_lagged_is_taken_for_what_it_is
    a_master_that_wants_a_replica_takes_in_nothing_that_could_be_lost
    what_a_replica_has_confirmed_is_not_lost
    without_sentinels_work_goes_on_and_with_them_it_fails_over
    a_master_that_stands_still_is_left_and_not_come_back_to
    a_caller_gets_its_result_over_a_failover
}

async fn a_careful_failover_loses_and_doubles_nothing(kind: Kind) {
    let all = Sentinels::start(kind, PLANNED_DOWN_AFTER);
    let fleet = start(&all).await;
    fails_over_flawlessly("a careful failover", &all, fleet).await;
}

async fn fails_over_flawlessly(what: &str, all: &Sentinels, fleet: Fleet) {
    let promotion = all.hand_over();
    fleet.flows().await;
    all.wait_for_sync();
    let history = fleet.finish().await;
    report(what, &history, promotion);
    history.assert_flawless();
}

/// `SENTINEL FAILOVER`: the old master goes on taking in what it is sent, until a sentinel tells it
/// otherwise, ten seconds later.
async fn an_unprepared_failover_costs_only_what_the_old_master_took_in_after_it(kind: Kind) {
    let all = Sentinels::start(kind, DOWN_AFTER);
    let fleet = start(&all).await;
    let (old, new) = (all.master(), all.replica());
    let replicated = all.server(old).replicated(KEY);
    let promotion = all.fail_over();
    let claims = || all.server(new).ask::<u64>(&["HGET", &format!("queue:{{{QUEUE}}}:meta"), "claim"]).ok();
    let before = wait_for("the number of the last claim", claims);
    wait_for("a claim on the new master", || claims().filter(|claim| *claim > before));
    let moved = promotion.at.elapsed().unwrap();
    println!("an unprepared failover: {moved:?} from the promotion to the first claim on the new master");
    resumed("an unprepared failover", moved);
    fleet.flows().await;
    all.follow(old, new);
    let history = fleet.finish().await;
    println!("an unprepared failover: {}", history.summary());
    history.assert_flawless_but(replicated, promotion.at + moved + JOURNALED);
}

async fn masters_that_are_killed_cost_only_what_their_replicas_lacked(kind: Kind) {
    let mut all = Sentinels::start(kind, DOWN_AFTER);
    let fleet = start(&all).await;
    let replicated = all.server(all.master()).replicated(KEY);
    let dead = all.kill_master();
    let promotion = all.wait_for_promotion(1 - dead);
    fleet.flows().await;
    all.bring_back(dead);
    all.wait_for_sentinels();
    let history = fleet.finish().await;
    report("a dead master", &history, promotion);
    history.assert_flawless_but(replicated, promotion.at + JOURNALED);
}

/// What it lacks is lost or done again, and nobody who knows better spoils it: its workers are
/// `Forgotten` and start over.
async fn a_replica_that_lagged_is_taken_for_what_it_is(kind: Kind) {
    let mut all = Sentinels::start(kind, DOWN_AFTER);
    let fleet = start(&all).await;
    let replicated = all.server(all.master()).replicated(KEY);
    all.server(all.master()).cut_off_replicas();
    fleet.flows().await;
    fleet.pause_workers();
    fleet.until("jobs to be stored that nobody runs", |history| history.lost().len() > 20).await;
    let dead = all.kill_master();
    fleet.resume_workers();
    let promotion = all.wait_for_promotion(1 - dead);
    fleet.flows().await;
    let history = fleet.finish().await;
    report("a replica that lagged", &history, promotion);
    assert!(!history.lost().is_empty(), "what it lacked is lost: {}", history.summary());
    history.assert_flawless_but(replicated, promotion.at + JOURNALED);
}

/// `min-replicas-to-write`: a master without a replica refuses, and clients wait.
async fn a_master_that_wants_a_replica_takes_in_nothing_that_could_be_lost(kind: Kind) {
    let strict = ["--appendonly", "no", "--min-replicas-to-write", "1", "--min-replicas-max-lag", "2"];
    let mut all = Sentinels::with(kind, DOWN_AFTER, &strict);
    let fleet = start(&all).await;
    // What is stored from now on waits, and would be lost.
    fleet.pause_workers();
    let master = all.server(all.master());
    let replicated = master.replicated(KEY);
    master.cut_off_replicas();
    let refuses = || master.ask(&["INFO", "errorstats"]).is_ok_and(|errors: String| errors.contains("NOREPLICAS"));
    wait_for("the master to refuse jobs", || refuses().then_some(()));
    let refused = SystemTime::now();
    let dead = all.kill_master();
    fleet.resume_workers();
    let promotion = all.wait_for_promotion(1 - dead);
    // The new one has no replica either, before the old one is back.
    all.bring_back(dead);
    fleet.flows().await;
    let history = fleet.finish().await;
    report("a master that wants a replica", &history, promotion);
    history.assert_flawless_but(replicated, refused + JOURNALED);
}

/// `Client::with_replicas`: an enqueue says whether its job would survive, and what is said is
/// true.
async fn what_a_replica_has_confirmed_is_not_lost(kind: Kind) {
    let mut all = Sentinels::start(kind, DOWN_AFTER);
    let fleet = Fleet::careful(env!("CARGO_BIN_EXE_chronicler"), &all.url(), &[QUEUE], 1).await;
    fleet.pause_workers();
    fleet.until("jobs to be stored that nobody runs", |history| history.lost().len() > 5).await;
    all.server(all.master()).cut_off_replicas();
    fleet.until("enqueues to say that no replica has their jobs", |history| history.unconfirmed() > 0).await;
    let dead = all.kill_master();
    fleet.resume_workers();
    let promotion = all.wait_for_promotion(1 - dead);
    all.bring_back(dead);
    fleet.flows().await;
    let history = fleet.finish().await;
    report("a replica that has confirmed", &history, promotion);
    assert!(history.lost().is_empty(), "{}", history.summary());
}

async fn without_sentinels_work_goes_on_and_with_them_it_fails_over(kind: Kind) {
    let all = Sentinels::start(kind, PLANNED_DOWN_AFTER);
    let mut fleet = start(&all).await;
    all.pause_sentinels(0..2);
    fleet.flows().await;
    // Who comes now asks the one that is left.
    fleet.add_worker();
    fleet.flows().await;
    all.pause_sentinels(2..3);
    fleet.flows().await;
    fleet.flows().await;
    // Who comes now has nobody to ask, and keeps asking.
    fleet.add_worker();
    all.resume_sentinels(0..3);
    fleet.flows().await;
    all.wait_for_sentinels();
    fails_over_flawlessly("sentinels that were cut off", &all, fleet).await;
}

/// `SIGSTOP`: its sockets are open, and nobody answers. When it wakes up it still takes itself for
/// the master.
async fn a_master_that_stands_still_is_left_and_not_come_back_to(kind: Kind) {
    let all = Sentinels::start(kind, DOWN_AFTER);
    let fleet = start(&all).await;
    let (old, new) = (all.master(), all.replica());
    let replicated = all.server(old).replicated(KEY);
    all.server(old).pause();
    let promotion = all.wait_for_promotion(new);
    fleet.flows().await;
    all.server(old).resume();
    fleet.flows().await;
    all.wait_for_sync();
    fleet.flows().await;
    let history = fleet.finish().await;
    report("a master that stands still", &history, promotion);
    history.assert_flawless_but(replicated, promotion.at + JOURNALED);
}

mod on_valkey_alone {
    use super::*;

    /// Valkey 9: `SENTINEL FAILOVER service COORDINATED`.
    #[tokio::test(flavor = "multi_thread", worker_threads = 2)]
    async fn a_coordinated_failover_loses_and_doubles_nothing() {
        let all = Sentinels::start(Kind::Valkey, PLANNED_DOWN_AFTER);
        let fleet = start(&all).await;
        let promotion = all.hand_over_coordinated();
        fleet.flows().await;
        let history = fleet.finish().await;
        report("a coordinated failover", &history, promotion);
        history.assert_flawless();
    }
}

async fn start(all: &Sentinels) -> Fleet {
    Fleet::start(env!("CARGO_BIN_EXE_chronicler"), &all.url(), &[QUEUE]).await
}

fn report(what: &str, history: &History, promotion: Promotion) {
    let first = history.first_start(promotion.at).expect("jobs start after the promotion");
    println!("{what}: {first:?} from the promotion to the first start; {}", history.summary());
    resumed(what, first);
}

/// Waits until it may end.
#[task(queue = "called")]
async fn doubled(n: u64, gate: Data<Arc<Semaphore>>) -> Result<u64, std::convert::Infallible> {
    gate.acquire().await.expect("it is never closed").forget();
    Ok(n * 2)
}

/// One calls in the worker's runtime, and one on a thread without any.
async fn a_caller_gets_its_result_over_a_failover(kind: Kind) {
    let all = Sentinels::start(kind, PLANNED_DOWN_AFTER);
    let client = Client::connect(&all.url()).await.unwrap().watched();
    let gate = Arc::new(Semaphore::new(0));
    let worker = Worker::new(client.clone()).registry(Registry::empty()).register::<doubled>().data(gate.clone());
    let calls = async {
        let here = doubled::job(21).id("here").call(&client, Duration::from_secs(60));
        let elsewhere = client.clone();
        let without_runtime = std::thread::spawn(move || block_on(doubled::job(4).id("there").call(&elsewhere, Duration::from_secs(60))));
        let fails_over = async {
            for id in ["here", "there"] {
                let handle = client.handle::<doubled>(format!("called/{id}").parse().unwrap());
                while handle.status().await.ok().flatten() != Some(JobState::Active) {
                    tokio::task::yield_now().await;
                }
            }
            let _ = tokio::task::block_in_place(|| all.hand_over());
            gate.add_permits(2);
        };
        let (here, ()) = tokio::join!(here, fails_over);
        assert_eq!(here.unwrap(), JobResult::Done(42));
        let there = tokio::task::spawn_blocking(move || without_runtime.join().unwrap()).await.unwrap();
        assert_eq!(there.unwrap(), JobResult::Done(8));
    };
    worker.run(calls).await.unwrap();
}

struct Unpark(Thread);

impl Wake for Unpark {
    fn wake(self: Arc<Self>) {
        self.0.unpark();
    }
}

/// Drives a future on this thread alone.
fn block_on<F: Future>(future: F) -> F::Output {
    let mut future = std::pin::pin!(future);
    let waker = Waker::from(Arc::new(Unpark(std::thread::current())));
    loop {
        match future.as_mut().poll(&mut Context::from_waker(&waker)) {
            Poll::Ready(output) => return output,
            Poll::Pending => std::thread::park(),
        }
    }
}
