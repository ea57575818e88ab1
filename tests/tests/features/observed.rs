//! Every call to a broker, counted and timed.

use std::{
    collections::BTreeMap,
    sync::{Arc, Mutex},
    time::Duration,
};

use futures_util::FutureExt;
use queue_conformance::failing::{FailingBroker, Fault};
use queue_core::{
    __private::SqliteBroker,
    JobId, Registry,
    broker::{DynBroker, Enqueue, Extend, NewJob, PartyName, ProcessId, Register, SetPause, Turn, WorkerMode},
    observe::{CallOutcome, Calls, Observe, VerbCalls, verbs},
    prelude::*,
};
use queue_tests::{
    on_servers,
    patience::{WatchBroker, until},
    server::{Kind, Server},
};
use queue_worker::Worker;

const QUEUE: &str = "observed";
const LEASE: Duration = Duration::from_secs(30);

#[task(queue = "observed", retention = "1h")]
async fn double(n: u32, by_worker: Data<Calls>) -> Result<u32, std::io::Error> {
    // A lane that holds no job sends no heartbeat.
    until("a heartbeat", || async { by_worker.snapshot().contains_key("extend") }).await;
    Ok(2 * n)
}

on_servers! {
    the_calls_of_a_client_and_of_its_worker_are_counted
    a_worker_reports_what_it_uses_when_it_begins_and_that_it_stops
}

/// A broker that fails on demand around one in memory; with an observer around it; and its
/// counters.
fn observed() -> (Arc<FailingBroker>, DynBroker, Arc<Calls>) {
    let (failing, calls) = (FailingBroker::new(SqliteBroker::open("sqlite::memory:").unwrap()), Arc::new(Calls::default()));
    let client = Client::with_broker(failing.clone()).with_observer(calls.clone());
    (failing, client.broker().clone(), calls)
}

fn jobs(n: usize) -> Vec<NewJob> {
    (0..n).map(|_| NewJob::new(JobId::make(), queue_core::__private::Envelope::new("double", &[0x80]).encode().unwrap())).collect()
}

fn errors(calls: &Calls, verb: &str) -> Vec<(&'static str, u64)> {
    calls.snapshot().remove(verb).unwrap_or_default().errors.into_iter().collect()
}

#[tokio::test]
async fn a_verb_is_counted_by_its_name() {
    let (failing, broker, calls) = observed();
    // Not counted: they do not pass the observer.
    let bare = failing as DynBroker;
    let producer = bare.register(&Register::producer(QUEUE, ProcessId::random())).await.unwrap().name;
    let lane = broker.register(&Register::lane(QUEUE, ProcessId::random(), LEASE)).await.unwrap().name;
    broker.enqueue(&Enqueue::new(QUEUE, producer, 1, jobs(1))).await.unwrap();
    broker.turn(&Turn::new(QUEUE, lane.clone(), 1, LEASE)).await.unwrap();
    broker.extend(&[Extend::new(QUEUE, lane, 1, LEASE)]).await.remove(0).unwrap();
    broker.stats(QUEUE).await.unwrap();
    broker.set_pause(&SetPause::of_queue(QUEUE, false)).await.unwrap();

    let once = |calls: &VerbCalls| (calls.calls, calls.errors.clone());
    let counted: BTreeMap<_, _> = calls.snapshot().iter().map(|(verb, calls)| (*verb, once(calls))).collect();
    assert_eq!(counted, ["register", "enqueue", "turn", "extend", "stats", "set_pause"].map(|verb| (verb, (1, BTreeMap::new()))).into());
    assert!(counted.keys().all(|counted| verbs().any(|verb| verb == *counted)));
}

#[tokio::test]
async fn errors_are_counted_by_their_kind() {
    let (failing, broker, calls) = observed();
    let request = Register::producer(QUEUE, ProcessId::random());
    let producer = broker.register(&request).await.unwrap().name;
    failing.fail(Fault::RequestLost, 2);
    broker.register(&request).await.unwrap_err();
    broker.register(&request).await.unwrap_err();
    failing.fail(Fault::ReplyLost, 1);
    broker.register(&request).await.unwrap_err();
    assert_eq!((calls.snapshot()["register"].calls, errors(&calls, "register")), (4, vec![("ambiguous", 1), ("unavailable", 2)]));

    failing.fail(Fault::Full, 1);
    broker.enqueue(&Enqueue::new(QUEUE, producer.clone(), 1, jobs(1))).await.unwrap_err();
    broker.enqueue(&Enqueue::new(QUEUE, PartyName::new("nobody"), 1, jobs(1))).await.unwrap_err();
    broker.enqueue(&Enqueue::new(QUEUE, producer.clone(), 9, jobs(1))).await.unwrap();
    broker.enqueue(&Enqueue::new(QUEUE, producer, 8, jobs(1))).await.unwrap_err();
    assert_eq!(errors(&calls, "enqueue"), [("broker_full", 1), ("forgotten", 1), ("old", 1)]);
}

#[tokio::test]
async fn a_heartbeat_counts_the_first_lane_that_lost_its_lease() {
    let (_, broker, calls) = observed();
    let lane = broker.register(&Register::lane(QUEUE, ProcessId::random(), LEASE)).await.unwrap().name;
    let lanes = [lane, PartyName::new("nobody"), PartyName::new("nobody else")].map(|lane| Extend::new(QUEUE, lane, 0, LEASE));
    let answers = broker.extend(&lanes).await;
    assert_eq!(answers.iter().filter(|answer| answer.is_err()).count(), 2);
    assert_eq!((calls.snapshot()["extend"].calls, errors(&calls, "extend")), (1, vec![("forgotten", 1)]));
}

#[tokio::test]
async fn a_call_that_its_caller_drops_is_cancelled() {
    let (failing, broker, calls) = observed();
    let lane = broker.register(&Register::lane(QUEUE, ProcessId::random(), LEASE)).await.unwrap().name;
    let turn = Turn::new(QUEUE, lane, 1, LEASE);
    drop(broker.turn(&turn));
    assert!(!calls.snapshot().contains_key("turn"), "it had not begun");
    failing.hold(Some(QUEUE));
    assert!(broker.turn(&turn).now_or_never().is_none());
    assert_eq!((calls.snapshot()["turn"].calls, errors(&calls, "turn")), (1, vec![("cancelled", 1)]));
    failing.hold(None);
    broker.turn(&turn).await.unwrap();
    assert_eq!((calls.snapshot()["turn"].calls, errors(&calls, "turn")), (2, vec![("cancelled", 1)]));
}

/// What it is told, in order.
#[derive(Default)]
struct Told(Mutex<Vec<(&'static str, CallOutcome)>>);

impl Observe for Told {
    fn call(&self, verb: &'static str, outcome: CallOutcome, _: Duration) {
        self.0.lock().unwrap().push((verb, outcome));
    }
}

struct Panics;

impl Observe for Panics {
    fn call(&self, _: &'static str, _: CallOutcome, _: Duration) {
        panic!("as it must");
    }
}

#[tokio::test]
async fn an_observer_that_panics_changes_nothing_and_another_one_hears_too() {
    let (failing, told) = (FailingBroker::new(SqliteBroker::open("sqlite::memory:").unwrap()), Arc::new(Told::default()));
    let client = Client::with_broker(failing.clone()).with_observer(told.clone()).with_observer(Panics);
    client.broker().check().await.unwrap();
    failing.fail(Fault::RequestLost, 1);
    client.broker().check().await.unwrap_err();
    assert_eq!(*told.0.lock().unwrap(), [("check", CallOutcome::Ok), ("check", CallOutcome::Failed("unavailable"))]);
}

async fn the_calls_of_a_client_and_of_its_worker_are_counted(kind: Kind) {
    let server = Server::start(kind);
    follow_a_job(Client::connect(&server.url()).await.unwrap().watched()).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_calls_of_a_client_and_of_its_worker_are_counted_on_sqlite() {
    follow_a_job(Client::connect("sqlite://:memory:").await.unwrap().watched()).await;
}

async fn follow_a_job(bare: Client) {
    let [by_client, by_worker] = [(); 2].map(|()| Arc::new(Calls::default()));
    let client = bare.with_observer(by_client.clone()).with_deadline(Duration::from_secs(20));
    let handle = double::job(21).enqueue(&client).await.unwrap();
    client.inspector().stats(QUEUE).await.unwrap();
    // No worker has served the queue yet: which one may have been meant is asked beside the
    // enqueue.
    let verbs: Vec<_> = by_client.snapshot().keys().copied().filter(|verb| *verb != "queues").collect();
    assert_eq!(verbs, ["enqueue", "register", "stats"]);
    let worker = Worker::new(bare.clone()).registry(Registry::empty()).register::<double>().lease(Duration::from_secs(2));
    let worker = worker.shared_data(by_worker.clone()).map_client(|client| client.with_observer(by_worker.clone()));
    worker.run(async { assert_eq!(handle.wait(Duration::from_secs(30)).await.unwrap(), JobResult::Done(42)) }).await.unwrap();
    let (client, worker) = (by_client.snapshot(), by_worker.snapshot());
    assert!(client["watch"].calls >= 1 && !client.contains_key("turn"), "{client:?}");
    assert!(["check", "register", "turn", "extend"].iter().all(|verb| worker[verb].calls >= 1), "{worker:?}");
    // Claims and the ending of the job.
    assert!(worker["turn"].calls >= 2 && worker["turn"].total >= worker["turn"].max, "{worker:?}");
    assert_eq!(client["enqueue"].calls, 1, "those of the worker are not the client's: {client:?}");
}

async fn a_worker_reports_what_it_uses_when_it_begins_and_that_it_stops(kind: Kind) {
    let server = Server::start(kind);
    begins_and_stops(Client::connect(&server.url()).await.unwrap().watched()).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_worker_reports_what_it_uses_when_it_begins_and_that_it_stops_on_sqlite() {
    begins_and_stops(Client::connect("sqlite://:memory:").await.unwrap().watched()).await;
}

async fn begins_and_stops(client: Client) {
    let inspector = client.inspector();
    let listed = async || inspector.workers().await.unwrap().pop();
    let worker = Worker::new(client.clone()).registry(Registry::empty()).register::<double>().data(Calls::default());
    let begins = async {
        until("it says what it uses", || async { listed().await.is_some_and(|worker| worker.load.is_some()) }).await;
        let worker = listed().await.expect("it is listed");
        let lived = worker.since.expect("it has registered").elapsed().expect("the clock goes on");
        let load = worker.load.expect("it has said so");
        // Heartbeats come every five seconds.
        assert!(lived.saturating_sub(load.age) < Duration::from_secs(4), "{worker:?}");
        assert_eq!((load.busy, load.slots > 0, load.memory.is_some()), (0, true, cfg!(target_os = "linux")), "{worker:?}");
    };
    worker.run(begins).await.unwrap();
    let left = listed().await.expect("it is listed until it is fenced");
    assert_eq!((left.mode(), left.lease_left), (WorkerMode::Stopping, Duration::ZERO));
    assert!(left.lease_age < Duration::from_secs(20), "it was heard of when it stopped: {left:?}");
}
