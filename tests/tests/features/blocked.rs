//! What an idle worker costs: a turn that returned nothing is followed by another one when there is
//! a hint, when something is due, or when it polls.

use std::{
    sync::Arc,
    time::{Duration, Instant},
};

use queue_conformance::conformance::{Bed, Lane, Storage};
use queue_core::{
    __private::Envelope,
    JobId, Registry,
    broker::{CrashRule, JobLimits, NewJob, SetPause},
    inspect::{GroupName, LimitKey, PauseOf, Pausing, RuleOf},
    observe::Calls,
    prelude::*,
};
use queue_tests::{
    patience::{WatchBroker, until},
    server::Kind,
    storages::{Server, SqliteMemory},
};
use queue_worker::{Shutdown, Worker};

/// More groups than one claim looks at.
const GROUPS: usize = 450;
const ALL: usize = 500;
const CRASHES: CrashRule = CrashRule { max_crashes: 3, tasks: &[], window: Duration::from_secs(3600), delay: Duration::ZERO };

/// So many turns take longer than this, where the worker polls. A worker that asks again and again
/// makes them in some milliseconds.
const TURNS: u64 = 6;
const POLLS: Duration = Duration::from_secs(1);

/// The first turns put aside what may not start, hundreds of entries at a time.
const TRIES: usize = 4;

#[task(queue = "blocked")]
async fn run() {}

/// What keeps the jobs of hundreds of groups back.
#[derive(Clone, Copy, Debug)]
enum By {
    /// There are no jobs.
    Nothing,
    Pauses,
    PausedTask,
    Caps,
    Limits,
    /// They are suspects, and their limit has no room.
    Suspects,
}

const ALL_OF_THEM: [By; 6] = [By::Nothing, By::Pauses, By::PausedTask, By::Caps, By::Limits, By::Suspects];

#[tokio::test]
async fn a_blocked_queue_costs_no_more_than_an_idle_one_on_sqlite() {
    for by in ALL_OF_THEM {
        costs_a_poll(by, Box::new(SqliteMemory::new())).await;
    }
}

#[tokio::test]
async fn a_blocked_queue_costs_no_more_than_an_idle_one_on_redis() {
    for by in ALL_OF_THEM {
        costs_a_poll(by, Box::new(Server::new(Kind::Redis))).await;
    }
}

async fn costs_a_poll(by: By, storage: Box<dyn Storage>) {
    let bed = Bed::new(storage).await.in_queue("blocked");
    let holder = block(&bed, by).await;
    let calls = Arc::new(Calls::default());
    let client = Client::with_broker(bed.broker.clone()).with_observer(calls.clone()).watched();
    let turns = || calls.snapshot().get("turn").map_or(0, |turn| turn.calls);
    let shutdown = Shutdown::new();
    let worker = Worker::new(client).registry(Registry::empty()).register::<run>().concurrency(10);
    let running = tokio::spawn(worker.run_with(shutdown.clone()));
    let mut took = Vec::new();
    while took.last().is_none_or(|took| *took < POLLS) {
        assert!(took.len() < TRIES, "{by:?}: {TURNS} turns each time in {took:?}");
        let (began, before) = (Instant::now(), turns());
        until("some turns, or a second", async || turns() >= before + TURNS || began.elapsed() >= POLLS).await;
        took.push(began.elapsed());
    }
    assert_eq!(bed.stats().await.total(queue_core::broker::Counter::Done), 0, "{by:?}: nothing may start");
    shutdown.drain();
    running.await.expect("the worker has not panicked").expect("the worker ends in order");
    drop(holder);
}

fn group(n: usize) -> GroupName {
    GroupName::new(format!("group-{n}")).expect("it is a name")
}

/// Stores a job of each group that may not start. Gives who holds the slot of their limit.
async fn block(bed: &Bed, by: By) -> Option<Lane> {
    let (inspector, queue) = (bed.inspector(), bed.queue.clone());
    let limited = |n: usize| {
        let mut job = NewJob::new(JobId::make(), Envelope::new("run", &[0x80]).encode().expect("it is small"));
        job.group = Some(group(n));
        let is_limited = matches!(by, By::Limits | By::Suspects);
        job.limits = JobLimits::new(is_limited.then(|| LimitKey::of("api", b"")).into_iter().collect(), 1).map(Box::new);
        job
    };
    let pause = async |of: PauseOf| {
        bed.broker.set_pause(&SetPause::pause(queue.clone(), of, Pausing::new())).await.expect("it can be paused");
    };
    let mut holder = None;
    if let By::Suspects = by {
        bed.producer().await.stored((0..GROUPS).map(limited).collect()).await;
        let mut dying = bed.dying_lane().await;
        assert_eq!(dying.claim(ALL).await.len(), GROUPS);
        bed.reclaim(&[&dying], CRASHES).await;
    }
    if let By::Limits | By::Suspects = by {
        inspector.set_limit(&queue, "api", |rule| rule.concurrency = Some(1)).await.expect("the limit is set");
        bed.producer().await.stored(vec![limited(GROUPS)]).await;
        let mut lane = bed.lane().await;
        let mut turn = lane.next().claim(1);
        turn.suspect = false;
        assert_eq!(lane.send(&turn).await.deliveries.len(), 1);
        holder = Some(lane);
    }
    for n in 0..GROUPS {
        match by {
            By::Pauses => pause(PauseOf::Group(group(n))).await,
            By::Caps => {
                let closed = RuleOf::Group(group(n));
                inspector.set_group_rule(&queue, &closed, |rule| rule.cap = Some(0)).await.map(drop).expect("the rule is set");
            }
            _ => {}
        }
    }
    if let By::PausedTask = by {
        pause(PauseOf::Task("run".into())).await;
    }
    if let By::Pauses | By::PausedTask | By::Caps | By::Limits = by {
        bed.producer().await.stored((0..GROUPS).map(limited).collect()).await;
    }
    holder
}
