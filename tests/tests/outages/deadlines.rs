//! Every call of a client returns within its deadline, whatever state its broker and its connection
//! are in.
//!
//! The promise is the deadline plus 50 ms. Each test prints by how much the latest call was late;
//! what fails it is [`SLACK`], so that a busy machine does not, and a call that waits for something
//! else than its deadline does.

use std::{
    error::Error as _,
    sync::{
        Arc, OnceLock,
        atomic::{AtomicU64, Ordering},
    },
    time::{Duration, Instant},
};

use futures_util::future::{BoxFuture, join_all};
use queue_core::{
    Error,
    broker::{Counter, Durability},
    prelude::*,
};
use queue_tests::{
    cluster::Cluster,
    folder::folder,
    on_servers,
    patience::{WatchBroker, until},
    proxy::{Harm, Proxy},
    sentinel::Sentinels,
    server::{Kind, Server, free_port},
};

/// The deadline of every call.
const DEADLINE: Duration = Duration::from_millis(700);

/// How much later than its deadline a call may return before a test fails, beyond the time for
/// which the machine stood still. What a call must not wait for takes five seconds.
const SLACK: Duration = Duration::from_millis(2_000);

/// Nothing in a test takes so long.
const LONG: Duration = Duration::from_secs(60);

#[task(queue = "known")]
async fn known(_n: u64) {}

#[task(queue = "strange")]
async fn strange(_n: u64) {}

on_servers! {
    a_call_returns_within_its_deadline_whatever_the_connection_is_in
    a_call_returns_within_its_deadline_whatever_sentinels_do
    a_call_returns_within_its_deadline_whatever_a_cluster_does
    a_client_that_never_connected_waits_for_its_server_until_the_deadline
    a_connection_that_swallows_everything_is_replaced_although_no_call_waits_for_long
    an_enqueue_whose_reply_was_lost_is_resolved_within_its_deadline
}

/// What is done to the server, and to the way to it.
#[derive(Clone, Copy, Debug)]
enum State {
    Killed,
    Stopped,
    Refused,
    BlackHole,
    Unanswered,
    Cut,
    Held,
}

const STATES: [State; 7] = [State::Killed, State::Stopped, State::Refused, State::BlackHole, State::Unanswered, State::Cut, State::Held];

async fn a_call_returns_within_its_deadline_whatever_the_connection_is_in(kind: Kind) {
    let all = STATES.into_iter().flat_map(|state| [(state, true), (state, false)]);
    let late = join_all(all.map(async |(state, connected)| {
        let mut server = Server::start(kind);
        let proxy = Proxy::to(server.port());
        let client = Client::open(&proxy.url()).await.unwrap().with_deadline(DEADLINE);
        let handle = if connected { Some(enqueued(&client).await) } else { None };
        match state {
            State::Killed => server.kill(),
            State::Stopped => server.pause(),
            State::Refused => proxy.set(Harm::Refuse),
            State::BlackHole => proxy.set(Harm::BlackHole),
            State::Unanswered => proxy.set(Harm::SwallowReplies),
            State::Cut => proxy.set(Harm::CutReplies),
            State::Held => proxy.set(Harm::Hold),
        }
        let late = all_in_time(&client, handle, &format!("{state:?}, connected before: {connected}")).await;
        // Nobody who stands still is in the way of its end.
        if matches!(state, State::Stopped) {
            server.resume();
        }
        proxy.set(Harm::None);
        late
    }));
    println!("{kind:?}: the latest call came {:?} after its deadline", late.await.into_iter().max());
}

async fn a_call_returns_within_its_deadline_whatever_sentinels_do(kind: Kind) {
    let all = Sentinels::start(kind, LONG);
    let (client, other) = (Client::open(&all.url()).await.unwrap(), Client::open(&all.url()).await.unwrap());
    let (client, other) = (client.with_deadline(DEADLINE), other.with_deadline(DEADLINE));
    let handle = enqueued(&client).await;
    all.server(all.master()).pause();
    let mut late = all_in_time(&client, Some(handle.clone()), "the master stands still").await;
    all.pause_sentinels(0..3);
    late = late.max(all_in_time(&client, Some(handle), "and the sentinels").await);
    late = late.max(all_in_time(&other, None, "and nothing is known").await);
    println!("{kind:?}: the latest call came {late:?} after its deadline");
    all.resume_sentinels(0..3);
    all.server(all.master()).resume();
}

async fn a_call_returns_within_its_deadline_whatever_a_cluster_does(kind: Kind) {
    let all = Cluster::start(kind, LONG);
    let (client, other) = (Client::open(&all.url()).await.unwrap(), Client::open(&all.url()).await.unwrap());
    let (client, other) = (client.with_deadline(DEADLINE), other.with_deadline(DEADLINE));
    let handle = enqueued(&client).await;
    all.nodes().iter().for_each(Server::pause);
    let mut late = all_in_time(&client, Some(handle), "all nodes stand still").await;
    late = late.max(all_in_time(&other, None, "and nothing is known").await);
    println!("{kind:?}: the latest call came {late:?} after its deadline");
    all.nodes().iter().for_each(Server::resume);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_call_returns_within_its_deadline_although_another_process_holds_the_file() {
    let folder = folder();
    let path = folder.path().join("queue.db");
    let client = Client::connect(&format!("sqlite://{}", path.display())).await.unwrap().with_deadline(DEADLINE);
    let handle = enqueued(&client).await;
    let other = rusqlite::Connection::open(&path).unwrap();
    other.execute_batch("BEGIN IMMEDIATE").unwrap();
    let late = all_in_time(&client, Some(handle), "the file is locked").await;
    println!("SQLite: the latest call came {late:?} after its deadline");
    other.execute_batch("ROLLBACK").unwrap();
}

/// As `Client::connect` gives it. Nobody waits 15 seconds for each state.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_default_deadline_is_kept_as_well() {
    let mut server = Server::start(Kind::Redis);
    let client = Client::connect(&server.url()).await.unwrap().watched();
    known::job(1).enqueue(&client).await.unwrap();
    server.kill();
    in_time("enqueue", queue_core::__private::ENQUEUE_DEADLINE, true, async { known::job(2).enqueue(&client).await.map(drop) }).await;
}

async fn a_client_that_never_connected_waits_for_its_server_until_the_deadline(kind: Kind) {
    let mut server = Server::start(kind);
    server.kill();
    let client = Client::open(&server.url()).await.unwrap().with_deadline(LONG);
    let waiting = tokio::spawn(async move { known::job(1).enqueue(&client).await.map(drop) });
    tokio::time::sleep(Duration::from_secs(2)).await;
    assert!(!waiting.is_finished(), "{:?}", waiting.await);
    server.restart();
    tokio::time::timeout(LONG, waiting).await.unwrap().unwrap().expect("the server came back within the deadline");
}

async fn a_connection_that_swallows_everything_is_replaced_although_no_call_waits_for_long(kind: Kind) {
    let server = Server::start(kind);
    let proxy = Proxy::to(server.port());
    let client = Client::open(&proxy.url()).await.unwrap().with_deadline(DEADLINE);
    let patient = client.with_deadline(LONG);
    enqueued(&client).await;
    proxy.set(Harm::BlackHole);
    let mut unsent = 0;
    let pending = loop {
        match known::job(2).id("unknown").enqueue(&client).await {
            Err(Error::Unknown(pending)) => break pending,
            // The machine stood still for the whole deadline.
            Err(Error::Unavailable { .. }) if unsent < 5 => unsent += 1,
            other => panic!("it was sent: {other:?}"),
        }
    };
    // The connection that has swallowed something stays as it is.
    proxy.set(Harm::None);
    until("another connection", async || known::job(3).enqueue(&client).await.is_ok()).await;
    let settled = async {
        let mut settled = pending.retry().await;
        while let Err(Error::Unknown(pending)) = settled {
            settled = pending.retry().await;
        }
        settled.unwrap()
    };
    let settled = tokio::time::timeout(LONG, settled).await.expect("it is answered");
    let record = patient.inspector().show(settled.address()).await.unwrap();
    assert_eq!(record.state, queue_core::broker::JobState::Ready);
    assert!(known::job(2).id("unknown").enqueue(&patient).await.unwrap().existing());
}

/// Alone, in a crowd, and in bulk. The connection that has lost a reply loses all later ones, as if
/// the network had forgotten it.
async fn an_enqueue_whose_reply_was_lost_is_resolved_within_its_deadline(kind: Kind) {
    const PATIENT: Duration = Duration::from_secs(12);
    for jobs in [1, 40] {
        let server = Server::start(kind);
        let proxy = Proxy::to(server.port());
        let client = Client::open(&proxy.url()).await.unwrap().with_deadline(PATIENT);
        enqueued(&client).await;
        let before = client.inspector().stats("known").await.unwrap().total(Counter::Enqueued);
        proxy.set(Harm::SwallowReplies);
        let swallowed = proxy.harmed();
        let (crowd, bulk) = (client.clone(), client.clone());
        let crowd = tokio::spawn(async move { join_all((0..jobs).map(|n| known::job(n).enqueue(&crowd))).await });
        let bulk = tokio::spawn(async move { bulk.enqueue_all((0..jobs).map(known::job)).await });
        until("a reply to be lost", async || proxy.harmed() > swallowed).await;
        proxy.set(Harm::None);
        for (n, answer) in crowd.await.unwrap().into_iter().enumerate() {
            assert!(!answer.unwrap_or_else(|error| panic!("{kind:?}, job {n} of {jobs}: {error:?}")).existing());
        }
        assert_eq!(bulk.await.unwrap().map(|handles| handles.len()).map_err(|error| error.to_string()), Ok(jobs as usize));
        let stats = client.inspector().stats("known").await.unwrap();
        assert_eq!(stats.total(Counter::Enqueued) - before, 2 * jobs, "{kind:?}: each is stored once");
    }
}

/// Stores a job while all is well, so that the client is connected and has names in the queue
/// `known`.
async fn enqueued(client: &Client) -> Handle<known> {
    let patient = client.with_deadline(LONG);
    patient.enqueue_all((0..3).map(known::job)).await.unwrap();
    until("a first job", async || known::job(0).enqueue(client).await.is_ok()).await;
    join_all((0..20).map(|n| known::job(n).enqueue(client))).await;
    client.handle(known::job(0).enqueue(&patient).await.unwrap().address().clone())
}

/// Makes calls of every kind, at once and one after the other. Gives how much later than its
/// deadline the latest returned.
async fn all_in_time(client: &Client, handle: Option<Handle<known>>, state: &str) -> Duration {
    let mut latest = Duration::ZERO;
    let durable = client.with_durability(Durability::PowerLoss);
    for round in 0..2 {
        let called = |name: &str| format!("{state}, round {round}: {name}");
        let mut calls: Vec<BoxFuture<'_, Duration>> = Vec::new();
        let mut call = |name: &str, whole: bool, work: BoxFuture<'static, Result<(), Error>>| {
            let name = called(name);
            calls.push(Box::pin(async move { in_time(&name, DEADLINE, whole, work).await }));
        };
        let cloned = || client.clone();
        let (one, two, three, four) = (cloned(), cloned(), cloned(), cloned());
        call("enqueue", true, Box::pin(async move { known::job(1).enqueue(&one).await.map(drop) }));
        call("a name is wanted", true, Box::pin(async move { strange::job(1).enqueue(&two).await.map(drop) }));
        call("enqueue_all", true, Box::pin(async move { Ok(three.enqueue_all((0..1_200).map(known::job)).await.map(drop)?) }));
        call("confirmed", true, Box::pin(async move { known::job(2).enqueue(&durable_of(&four)).await.map(drop) }));
        let durable = durable.clone();
        call("confirmed, as before", true, Box::pin(async move { known::job(2).enqueue(&durable).await.map(drop) }));
        // They gather behind calls without an answer, with other deadlines each.
        for n in 0..60_u32 {
            let client = cloned();
            let begins = DEADLINE.mul_f64(f64::from(n) / 40.0);
            let name = called("one of a crowd");
            calls.push(Box::pin(async move {
                tokio::time::sleep(begins).await;
                in_time(&name, DEADLINE, true, async { known::job(u64::from(n)).enqueue(&client).await.map(drop) }).await
            }));
        }
        let inspector = Arc::new(client.inspector());
        let address: queue_core::JobAddress = "known/01912345-0000-7000-8000-000000000000".parse().unwrap();
        for what in ["queues", "stats", "show", "cancel", "delete", "pause", "find"] {
            let (inspector, address, name) = (inspector.clone(), address.clone(), called(what));
            calls.push(Box::pin(async move {
                let asked = async {
                    match what {
                        "queues" => inspector.queues().await.map(drop),
                        "stats" => inspector.stats("known").await.map(drop),
                        "show" => inspector.show(&address).await.map(drop),
                        "cancel" => inspector.cancel(&address).await.map(drop),
                        "delete" => inspector.delete(&address).await,
                        "pause" => inspector.pause("known").await,
                        _ => inspector.find(&address.id.to_string()).await.map(drop),
                    }
                };
                in_time(&name, DEADLINE, false, asked).await
            }));
        }
        if let Some(handle) = &handle {
            let name = called("result");
            calls.push(Box::pin(async move { in_time(&name, DEADLINE, false, async { handle.result().await.map(drop) }).await }));
            let (name, short) = (called("wait"), DEADLINE / 2);
            calls.push(Box::pin(async move { in_time(&name, short, false, async { handle.wait(short).await.map(drop) }).await }));
        }
        latest = join_all(calls).await.into_iter().fold(latest, Duration::max);
    }
    latest
}

/// For how long a thread that only sleeps was kept from running, in all.
fn stood_still() -> Duration {
    const NAP: Duration = Duration::from_millis(5);
    static STOOD: OnceLock<Arc<AtomicU64>> = OnceLock::new();
    let stood = STOOD.get_or_init(|| {
        let stood = Arc::new(AtomicU64::new(0));
        let noted = stood.clone();
        std::thread::spawn(move || {
            loop {
                let begun = Instant::now();
                std::thread::sleep(NAP);
                let late = begun.elapsed().saturating_sub(NAP * 2).as_micros();
                noted.fetch_add(u64::try_from(late).unwrap_or(u64::MAX), Ordering::Relaxed);
            }
        });
        stood
    });
    Duration::from_micros(stood.load(Ordering::Relaxed))
}

fn durable_of(client: &Client) -> Client {
    client.with_durability(Durability::PowerLoss)
}

/// Holds a call to its deadline, and its error to naming broker and cause. One that enqueues has to
/// use the `whole` of it.
async fn in_time(name: &str, deadline: Duration, whole: bool, call: impl Future<Output = Result<(), Error>>) -> Duration {
    let (begun, stood) = (Instant::now(), stood_still());
    let outcome = tokio::time::timeout(LONG, call).await.unwrap_or_else(|_| panic!("{name}: it hangs"));
    let took = begun.elapsed();
    let shown = outcome.as_ref().err().map_or_else(|| "it was done".to_owned(), |error| queue_core::__private::error_text(error));
    let stood = stood_still() - stood;
    assert!(
        took < deadline + SLACK + stood,
        "verdict: SLOW: {name}: it took {took:?} of {deadline:?}, and the machine stood still for {stood:?}: {shown}"
    );
    let (Err(error), false) = (&outcome, matches!(outcome, Err(Error::NoSuchJob(_)))) else { return Duration::ZERO };
    if whole {
        assert!(took >= deadline - Duration::from_millis(15), "{name}: it gave up after {took:?} of {deadline:?}: {shown}");
        assert!(matches!(error, Error::Unavailable { .. } | Error::Unknown(_) | Error::PartlyStored { .. }), "{name}: {error:?}");
        assert!(error.source().is_some() || error.to_string().contains("answer"), "{name}: no cause in {error:?}");
    }
    let text = error.to_string();
    assert!(text.contains("127.0.0.1") || text.contains("queue.db"), "{name}: which broker? {text}");
    took.saturating_sub(deadline)
}

#[tokio::test]
async fn an_address_at_which_nobody_listens_is_tried_until_the_deadline() {
    let url = format!("redis://127.0.0.1:{}", free_port());
    for deadline in [50, 200, 1_000].map(Duration::from_millis) {
        let client = Client::open(&url).await.unwrap().with_deadline(deadline);
        in_time("enqueue", deadline, true, async { known::job(1).enqueue(&client).await.map(drop) }).await;
    }
}
