//! Marks of who waits for the end of a job: where they may not be set, and what becomes of those
//! whose owner has gone.

use std::{sync::Arc, time::Duration};

use queue_conformance::{
    conformance::Lane,
    failing::{FailingBroker, Fault},
};
use queue_core::{
    __private::{RedisBroker, SqliteBroker},
    Client, Error, JobResult, Registry,
    broker::{DynBroker, JobState, SweepLimits},
    observe::Calls,
    prelude::*,
};
use queue_tests::{
    folder::folder,
    on_servers,
    patience::WatchBroker,
    server::{Kind, Server},
};
use queue_worker::Worker;
use serde::{Deserialize, Serialize};
use tokio::sync::Semaphore;

on_servers! {
    a_lane_that_knows_no_marks_keeps_them_out_and_who_waits_looks
    the_mark_of_who_has_gone_is_swept_and_takes_its_bit_along
    expired_marks_that_nobody_removes_are_reported
    expired_marks_keep_nobody_from_waiting
    a_full_server_has_no_room_for_marks_and_who_waits_looks
    who_is_present_gets_the_result_of_a_job_that_is_not_kept
    a_running_job_is_notified_at_once_of_its_cancel
    a_result_over_64_kib_is_answered_with_its_size
    results_without_size_are_read_and_what_is_nested_too_deeply_is_reported
}

const QUEUE: &str = "watched";

#[task(queue = "watched", retention = "1h")]
async fn double(n: u64) -> Result<u64, std::convert::Infallible> {
    Ok(n * 2)
}

/// Ends when it may, and is not kept.
#[task(queue = "watched")]
async fn triple(n: u64, gate: Data<Arc<Semaphore>>) -> Result<u64, std::convert::Infallible> {
    gate.acquire().await.expect("it is never closed").forget();
    Ok(n * 3)
}

/// Results of this size, as a task may return them.
#[task(queue = "watched", retention = "1h")]
async fn text(size: usize) -> Result<String, std::convert::Infallible> {
    Ok("x".repeat(size))
}

#[task(queue = "watched", retention = "1h")]
async fn perhaps(size: usize) -> Result<Option<String>, std::convert::Infallible> {
    Ok(Some("x".repeat(size)))
}

/// Ends when it may, and is not kept.
#[task(queue = "watched")]
async fn perhaps_not_kept(size: usize, gate: Data<Arc<Semaphore>>) -> Result<Option<String>, std::convert::Infallible> {
    gate.acquire().await.expect("it is never closed").forget();
    Ok(Some("x".repeat(size)))
}

#[derive(Debug, PartialEq, Serialize, Deserialize)]
enum Only {
    Done,
}

#[derive(Debug, PartialEq, Serialize, Deserialize)]
struct Empty {}

/// Values of types without size, none of which is nil when it is encoded.
#[task(queue = "watched", retention = "1h")]
async fn only() -> Result<Only, std::convert::Infallible> {
    Ok(Only::Done)
}

#[task(queue = "watched", retention = "1h")]
async fn empty() -> Result<Empty, std::convert::Infallible> {
    Ok(Empty {})
}

#[task(queue = "watched", retention = "1h")]
async fn units() -> Result<((), ()), std::convert::Infallible> {
    Ok(((), ()))
}

#[task(queue = "watched", retention = "1h")]
async fn nothing() -> Result<(), std::convert::Infallible> {
    Ok(())
}

/// Ends when it may, and is not kept.
#[task(queue = "watched")]
async fn only_not_kept(gate: Data<Arc<Semaphore>>) -> Result<Only, std::convert::Infallible> {
    gate.acquire().await.expect("it is never closed").forget();
    Ok(Only::Done)
}

#[derive(Debug, PartialEq, Serialize, Deserialize)]
struct Nested(Vec<Nested>);

/// A result of so many arrays, each within the one before.
#[task(queue = "watched", retention = "1h")]
async fn nested(depth: usize) -> Result<Nested, std::convert::Infallible> {
    Ok(nest(depth))
}

fn nest(depth: usize) -> Nested {
    (1..depth).fold(Nested(Vec::new()), |inner, _| Nested(vec![inner]))
}

/// Runs until it is told to stop.
#[task(queue = "watched")]
async fn stays(begun: Data<Arc<Semaphore>>, ctx: JobContext) {
    begun.add_permits(1);
    ctx.cancelled().await;
}

fn key(kind: &str) -> String {
    format!("queue:{{{QUEUE}}}:{kind}")
}

async fn connected(server: &Server) -> (Client, DynBroker) {
    let broker: DynBroker = RedisBroker::connect(&server.url()).await.unwrap();
    (Client::with_broker(broker.clone()), broker)
}

async fn is_waited_for(client: &Client, handle: &Handle<double>) {
    let worker = Worker::new(client.clone()).registry(Registry::empty()).register::<double>();
    worker.run(async { assert_eq!(handle.wait(Duration::from_secs(30)).await.unwrap(), JobResult::Done(42)) }).await.unwrap();
}

/// A lane of an older library would announce nothing.
async fn a_lane_that_knows_no_marks_keeps_them_out_and_who_waits_looks(kind: Kind) {
    let server = Server::start(kind);
    let (client, broker) = connected(&server).await;
    let handle = double::job(21).enqueue(&client).await.unwrap();
    let lane = Lane::on(&broker, QUEUE).await;
    server.command(&["HSET", &key("knows"), lane.name.as_str(), "lfkpcztahus"]);
    assert!(broker.watch(QUEUE, handle.id()).await.unwrap().is_some());
    assert_eq!(server.command(&["EXISTS", &key("watched")]), ":0\r\n");
    is_waited_for(&client, &handle).await;
}

async fn the_mark_of_who_has_gone_is_swept_and_takes_its_bit_along(kind: Kind) {
    let server = Server::start(kind);
    let (client, broker) = connected(&server).await;
    let handles = [double::job(1).enqueue(&client).await.unwrap(), double::job(2).enqueue(&client).await.unwrap()];
    let _lane = Lane::on(&broker, QUEUE).await;
    let bits = || server.command(&["HGET", &key("meta"), "bits"]);
    for handle in &handles {
        broker.watch(QUEUE, handle.id()).await.unwrap();
    }
    assert!(bits().contains('w'), "{}", bits());
    // One of the waits was over long ago.
    server.command(&["ZREMRANGEBYRANK", &key("watched"), "0", "0"]);
    server.command(&["ZADD", &key("watched"), "1000", "=gone"]);
    broker.sweep(QUEUE, &SweepLimits::default()).await.unwrap();
    assert_eq!((server.command(&["ZCARD", &key("watched")]), bits().contains('w')), (":1\r\n".to_owned(), true), "one still waits");
    for handle in &handles {
        handle.cancel("").await.unwrap();
    }
    broker.sweep(QUEUE, &SweepLimits::default()).await.unwrap();
    assert_eq!((server.command(&["EXISTS", &key("watched")]), bits().contains('w')), (":0\r\n".to_owned(), false));
}

#[tokio::test]
async fn the_mark_of_who_has_gone_is_swept_in_a_sqlite_file() {
    let folder = folder();
    let path = folder.path().join("queue.db");
    let broker: DynBroker = SqliteBroker::open_path(&path).unwrap();
    let client = Client::with_broker(broker.clone());
    let handle = double::job(1).enqueue(&client).await.unwrap();
    broker.watch(QUEUE, handle.id()).await.unwrap();
    let other = rusqlite::Connection::open(&path).unwrap();
    let marks = || other.query_row("SELECT count(*) FROM queue_watched", [], |row| row.get::<_, u32>(0)).unwrap();
    broker.sweep(QUEUE, &SweepLimits::default()).await.unwrap();
    assert_eq!(marks(), 1, "somebody still waits");
    other.execute("UPDATE queue_watched SET until = 1000", []).unwrap();
    broker.sweep(QUEUE, &SweepLimits::default()).await.unwrap();
    assert_eq!(marks(), 0);
}

async fn expired_marks_that_nobody_removes_are_reported(kind: Kind) {
    let server = Server::start(kind);
    let (client, broker) = connected(&server).await;
    double::job(1).enqueue(&client).await.unwrap();
    const PLACES: [&str; 6] = ["seen", "remembered", "dead", "watched", "leases", "unreadable"];
    let look = async || expired(&broker).await;
    PLACES.iter().for_each(|place| fill(&server, place, 100_000));
    assert_eq!(look().await, [""; 0]);
    PLACES.iter().for_each(|place| fill(&server, place, 100_001));
    assert_eq!(look().await, ["producers", "given ids", "dead jobs", "marks of callers", "lanes", "parked jobs"]);
    assert_eq!(server.command(&["ZCARD", &key("watched")]), ":100001\r\n", "nothing is removed");
    // A worker keeps dead jobs and ids for longer.
    let limits = SweepLimits { dead: FOREVER, remembered: FOREVER, remembered_count: 200_000, sweeper: 1, ..SweepLimits::default() };
    broker.sweep(QUEUE, &limits).await.unwrap();
    PLACES.iter().for_each(|place| fill(&server, place, 100_001));
    assert_eq!(look().await, ["producers", "marks of callers", "lanes", "parked jobs"]);
    // Kept jobs are in two places, and the sum counts.
    fill(&server, "lapsing", 50_000);
    let list = |entries: u32| {
        let script = format!("for n = 1, {entries} do redis.call('RPUSH', KEYS[1], n .. ':=gone' .. n) end");
        server.command(&["EVAL", &script, "1", &key("ended")]);
    };
    list(50_000);
    assert_eq!(look().await.len(), 4);
    list(1);
    assert!(look().await.contains(&"kept jobs"));
}

/// A thousand years.
const FOREVER: Duration = Duration::from_secs(1_000 * 365 * 24 * 3600);

/// Kinds of which too many expired entries wait.
async fn expired(broker: &DynBroker) -> Vec<&'static str> {
    let swept = broker.sweep(QUEUE, &SweepLimits { items: 0, ..SweepLimits::default() }).await.unwrap();
    swept.kinds().map(|(kind, _)| kind).collect()
}

/// So many entries of a set, the scores of which are times long ago.
fn fill(server: &Server, place: &str, entries: u32) {
    let script = format!("for n = 1, {entries} do redis.call('ZADD', KEYS[1], n, '=gone' .. n) end");
    server.command(&["EVAL", &script, "1", &key(place)]);
}

/// The same of marks in a SQLite file.
const FILL: &str = "WITH RECURSIVE n (n) AS (SELECT 1 UNION ALL SELECT n + 1 FROM n WHERE n < ?1)
    INSERT OR IGNORE INTO queue_watched (queue, id, until) SELECT 1, CAST(n AS BLOB), 1 FROM n";

#[tokio::test]
async fn expired_marks_that_nobody_removes_from_a_sqlite_file_are_reported() {
    let folder = folder();
    let path = folder.path().join("queue.db");
    let broker: DynBroker = SqliteBroker::open_path(&path).unwrap();
    let client = Client::with_broker(broker.clone());
    double::job(1).enqueue(&client).await.unwrap();
    let other = rusqlite::Connection::open(&path).unwrap();
    let fill = |entries: u32| {
        other.execute(FILL, [entries]).unwrap();
        for fill in [
            "INSERT OR IGNORE INTO queue_producers (queue, name, seq, answers, seen) SELECT queue, CAST(id AS TEXT), 0, x'', until FROM queue_watched",
            "INSERT OR IGNORE INTO queue_remembered (queue, id, digest, ended) SELECT queue, id, 0, until FROM queue_watched",
            "INSERT OR IGNORE INTO queue_jobs (queue, id, state, rank, pos, priority, envelope) SELECT queue, id, 7, 0, until, 2, x'' FROM queue_watched",
            "INSERT OR IGNORE INTO queue_jobs (queue, id, state, rank, pos, priority, envelope) SELECT queue, CAST(id || 'p' AS BLOB), 5, 0, until, 2, x'' FROM queue_watched",
            // Of kept jobs a part is done, and a part was cancelled: the sum counts.
            "INSERT OR IGNORE INTO queue_jobs (queue, id, state, rank, pos, priority, envelope)
             SELECT queue, CAST(id || 'k' AS BLOB), CASE WHEN CAST(CAST(id AS TEXT) AS INTEGER) % 2 THEN 6 ELSE 8 END, 0, until, 2, x'' FROM queue_watched",
            "INSERT OR IGNORE INTO queue_lanes (queue, name, process, deadline) SELECT queue, CAST(id AS TEXT), '', until FROM queue_watched",
        ] {
            other.execute(fill, []).unwrap();
        }
    };
    fill(100_000);
    assert_eq!(expired(&broker).await, [""; 0]);
    fill(100_001);
    assert_eq!(expired(&broker).await, ["producers", "given ids", "dead jobs", "kept jobs", "marks of callers", "lanes", "parked jobs"]);
    let limits = SweepLimits { dead: FOREVER, remembered: FOREVER, sweeper: 1, ..SweepLimits::default() };
    broker.sweep(QUEUE, &limits).await.unwrap();
    fill(100_001);
    // A sweep has looked at some of the parked jobs, which no release could not read: they stay.
    assert_eq!(expired(&broker).await, ["producers", "kept jobs", "marks of callers", "lanes"]);
}

/// As many as there may be at most.
const MARKS: u32 = 10_000;

async fn expired_marks_keep_nobody_from_waiting(kind: Kind) {
    let server = Server::start(kind);
    let (client, broker) = connected(&server).await;
    let handle = double::job(1).enqueue(&client).await.unwrap();
    fill(&server, "watched", MARKS);
    broker.watch(QUEUE, handle.id()).await.unwrap();
    assert_eq!(server.command(&["ZCOUNT", &key("watched"), "1000000", "+inf"]), ":1\r\n");
}

#[tokio::test]
async fn expired_marks_in_a_sqlite_file_keep_nobody_from_waiting() {
    let folder = folder();
    let path = folder.path().join("queue.db");
    let broker: DynBroker = SqliteBroker::open_path(&path).unwrap();
    let handle = double::job(1).enqueue(&Client::with_broker(broker.clone())).await.unwrap();
    let other = rusqlite::Connection::open(&path).unwrap();
    other.execute(FILL, [MARKS]).unwrap();
    broker.watch(QUEUE, handle.id()).await.unwrap();
    let marks = other.query_row("SELECT count(*) FROM queue_watched WHERE until > 1000000", [], |row| row.get::<_, u32>(0)).unwrap();
    assert_eq!(marks, 1);
}

async fn a_full_server_has_no_room_for_marks_and_who_waits_looks(kind: Kind) {
    let server = Server::start(kind);
    let (client, broker) = connected(&server).await;
    let handle = double::job(21).enqueue(&client).await.unwrap();
    server.command(&["CONFIG", "SET", "maxmemory-policy", "noeviction"]);
    server.command(&["CONFIG", "SET", "maxmemory", "1"]);
    assert!(matches!(broker.watch(QUEUE, handle.id()).await, Err(Error::BrokerFull { .. })));
    assert_eq!(handle.wait(Duration::from_millis(100)).await.unwrap(), JobResult::Pending);
    server.command(&["CONFIG", "SET", "maxmemory", "0"]);
    is_waited_for(&client, &handle).await;
}

/// Who waits is woken: it does not look again and again meanwhile.
#[tokio::test]
async fn who_waits_does_not_look_all_the_time() {
    let calls = Arc::new(Calls::default());
    let client = Client::connect("sqlite://:memory:").await.unwrap().with_observer(calls.clone());
    let handle = double::job(21).enqueue(&client).await.unwrap();
    assert_eq!(handle.wait(Duration::from_secs(2)).await.unwrap(), JobResult::Pending);
    let looks = calls.snapshot()["watch"].calls;
    assert!(looks <= 9, "{looks} looks in two seconds");
    is_waited_for(&client, &handle).await;
}

async fn who_is_present_gets_the_result_of_a_job_that_is_not_kept(kind: Kind) {
    let server = Server::start(kind);
    let ((client, _), (elsewhere, _)) = (connected(&server).await, connected(&server).await);
    is_present(&client, &elsewhere).await;
}

#[tokio::test]
async fn who_is_present_gets_the_result_of_a_job_that_a_sqlite_file_does_not_keep() {
    let folder = folder();
    let url = format!("sqlite://{}", folder.path().join("queue.db").display());
    is_present(&Client::connect(&url).await.unwrap().watched(), &Client::connect(&url).await.unwrap().watched()).await;
}

async fn is_present(client: &Client, elsewhere: &Client) {
    let gate = Arc::new(Semaphore::new(0));
    let job = triple::job(14).enqueue(client).await.unwrap();
    let looks: [Arc<Calls>; 3] = Default::default();
    let mut clients = [client, client, elsewhere].into_iter().zip(&looks).map(|(client, looks)| client.with_observer(looks.clone()));
    let [one, another, other] = std::array::from_fn(|_| clients.next().unwrap().handle::<triple>(job.address().clone()));
    let worker = Worker::new(client.clone()).registry(Registry::empty()).register::<triple>().data(gate.clone());
    let waits = async {
        let released = async {
            while job.status().await.unwrap() != Some(JobState::Active) {}
            // Each of those who wait is known to wait.
            while looks.iter().any(|looks| !looks.snapshot().contains_key("watch")) {
                tokio::task::yield_now().await;
            }
            // The worker listens by now. Those who wait tell it again with each look.
            let mut told = client.broker().watch_hints(QUEUE);
            told.next().await;
            // What is heard here was heard on the thread that answers this.
            job.status().await.unwrap();
            gate.add_permits(1);
        };
        let wait = Duration::from_secs(30);
        let (one, another, elsewhere, ()) = tokio::join!(one.wait(wait), another.wait(wait), other.wait(wait), released);
        for result in [one, another, elsewhere] {
            assert_eq!(result.unwrap(), JobResult::Done(42));
        }
        // Nobody was there when this one ended.
        let late = triple::job(1).enqueue(client).await.unwrap();
        gate.add_permits(1);
        while late.status().await.unwrap().is_some() {}
        let late = late.wait(Duration::from_secs(1)).await;
        assert!(matches!(late, Err(Error::NotKept(_))), "{late:?}");
    };
    worker.run(waits).await.unwrap();
}

async fn a_running_job_is_notified_at_once_of_its_cancel(kind: Kind) {
    let server = Server::start(kind);
    let ((client, _), (elsewhere, _)) = (connected(&server).await, connected(&server).await);
    are_told(&client, &elsewhere).await;
}

#[tokio::test]
async fn a_running_job_is_notified_at_once_of_its_cancel_on_a_sqlite_file() {
    let folder = folder();
    let url = format!("sqlite://{}", folder.path().join("queue.db").display());
    are_told(&Client::connect(&url).await.unwrap().watched(), &Client::connect(&url).await.unwrap().watched()).await;
}

/// Ten jobs, each of which is cancelled once it runs. A heartbeat tells of it as well, but there is
/// one in five seconds only.
async fn are_told(client: &Client, elsewhere: &Client) {
    let begun = Arc::new(Semaphore::new(0));
    let worker = Worker::new(client.clone()).registry(Registry::empty()).register::<stays>().data(begun.clone());
    let worker = worker.concurrency(1).grace(Duration::from_secs(1));
    let cancels = async {
        for _ in 0..10 {
            let job = stays::job().enqueue(client).await.unwrap();
            begun.acquire().await.unwrap().forget();
            elsewhere.handle::<stays>(job.address().clone()).cancel("unwanted").await.unwrap();
        }
        // The last one has ended when another one can begin.
        stays::job().enqueue(client).await.unwrap();
        begun.acquire().await.unwrap().forget();
    };
    let cancels = async { tokio::time::timeout(Duration::from_secs(25), cancels).await.expect("they are told before the heartbeats") };
    worker.run(cancels).await.unwrap();
}

async fn a_result_over_64_kib_is_answered_with_its_size(kind: Kind) {
    let server = Server::start(kind);
    let ((client, _), (elsewhere, _)) = (connected(&server).await, connected(&server).await);
    are_told_of_a_large_result(&client, &elsewhere).await;
}

#[tokio::test]
async fn a_result_over_64_kib_of_a_sqlite_file_is_answered_with_its_size() {
    let folder = folder();
    let url = format!("sqlite://{}", folder.path().join("queue.db").display());
    are_told_of_a_large_result(&Client::connect(&url).await.unwrap().watched(), &Client::connect(&url).await.unwrap().watched()).await;
}

/// A result of 64 KiB has a prefix of three bytes, and one over it five. The largest that is kept
/// is returned as it is.
async fn are_told_of_a_large_result(client: &Client, elsewhere: &Client) {
    const MOST: usize = 65_536 - 3;
    let (gate, wait) = (Arc::new(Semaphore::new(0)), Duration::from_secs(30));
    let worker = Worker::new(client.clone()).registry(Registry::empty()).data(gate.clone());
    let worker = worker.register::<text>().register::<perhaps>().register::<perhaps_not_kept>();
    let waits = async {
        let largest = text::job(MOST).enqueue(client).await.unwrap().wait(wait).await.unwrap();
        assert_eq!(largest, JobResult::Done("x".repeat(MOST)));
        told_the_size("a text", 65_537, text::job(MOST + 1).enqueue(client).await.unwrap().wait(wait).await);
        told_the_size("a text that may be missing", 170_005, perhaps::job(170_000).call(client, wait).await);
        // Nobody keeps this one, and both wait for it.
        let job = perhaps_not_kept::job(170_000).enqueue(client).await.unwrap();
        let calls = Arc::new(Calls::default());
        let here = client.with_observer(calls.clone()).handle::<perhaps_not_kept>(job.address().clone());
        let there = elsewhere.handle::<perhaps_not_kept>(job.address().clone());
        let released = async {
            while job.status().await.unwrap() != Some(JobState::Active) || !calls.snapshot().contains_key("watch") {
                tokio::task::yield_now().await;
            }
            let mut told = client.broker().watch_hints(QUEUE);
            told.next().await;
            job.status().await.unwrap();
            gate.add_permits(1);
        };
        let (here, there, ()) = tokio::join!(here.wait(wait), there.wait(wait), released);
        told_the_size("one who waits here", 170_005, here);
        told_the_size("one who waits elsewhere", 170_005, there);
    };
    worker.run(waits).await.unwrap();
}

fn told_the_size<T: std::fmt::Debug>(what: &str, size: usize, answer: Result<JobResult<T>, Error>) {
    let Err(error) = answer else { panic!("{what}: no error, but an answer that tells nothing of the size") };
    assert_eq!(error.kind(), "result_dropped", "{what}: {error}");
    let text = error.to_string();
    let expected = format!("it has {size} bytes, at most 65536 are kept; return less, or store it elsewhere and return a reference");
    assert!(text.ends_with(&expected), "{what}: {text}");
}

async fn results_without_size_are_read_and_what_is_nested_too_deeply_is_reported(kind: Kind) {
    let server = Server::start(kind);
    are_read(&connected(&server).await.0).await;
}

#[tokio::test]
async fn results_without_size_are_read_in_a_sqlite_file_and_what_is_nested_too_deeply_is_reported() {
    let folder = folder();
    are_read(&Client::connect(&format!("sqlite://{}", folder.path().join("queue.db").display())).await.unwrap().watched()).await;
}

async fn are_read(client: &Client) {
    let (gate, wait) = (Arc::new(Semaphore::new(0)), Duration::from_secs(30));
    let worker = Worker::new(client.clone()).registry(Registry::empty()).data(gate.clone());
    let worker = worker.register::<only>().register::<empty>().register::<units>().register::<nothing>();
    let worker = worker.register::<only_not_kept>().register::<nested>();
    let waits = async {
        let job = only::job().enqueue(client).await.unwrap();
        assert_eq!(job.wait(wait).await.unwrap(), JobResult::Done(Only::Done));
        let record = client.inspector().show(job.address()).await.unwrap();
        assert_eq!(record.result_json().unwrap().as_deref(), Some("\"Done\""));
        assert_eq!(empty::job().enqueue(client).await.unwrap().wait(wait).await.unwrap(), JobResult::Done(Empty {}));
        assert_eq!(units::job().call(client, wait).await.unwrap(), JobResult::Done(((), ())));
        let job = nothing::job().enqueue(client).await.unwrap();
        assert_eq!(job.wait(wait).await.unwrap(), JobResult::Done(()));
        assert_eq!(client.inspector().show(job.address()).await.unwrap().result_json().unwrap(), None, "nil is not stored");

        // What a late caller gets of a job that is not kept.
        let job = only_not_kept::job().enqueue(client).await.unwrap();
        gate.add_permits(1);
        while job.status().await.unwrap().is_some() {}
        assert!(matches!(job.result().await, Err(Error::NotKept(_))));

        assert_eq!(nested::job(64).call(client, wait).await.unwrap(), JobResult::Done(nest(64)));
        let deep = nested::job(66).call(client, wait).await.unwrap_err();
        assert_eq!(deep.kind(), "result_dropped", "{deep}");
        assert!(deep.to_string().contains("nested more than 64 deep"), "{deep}");
    };
    worker.run(waits).await.unwrap();
}

/// A look at a job changes nothing: without an answer none of them says that a request may have
/// been carried out.
#[tokio::test]
async fn a_question_that_is_not_answered_has_changed_nothing() {
    let broker = FailingBroker::new(SqliteBroker::open("sqlite::memory:").unwrap());
    let client = Client::with_broker(broker.clone() as DynBroker).with_deadline(Duration::from_millis(200));
    let job = double::job(21).enqueue(&client).await.unwrap();
    broker.fail(Fault::ReplyLost, u32::MAX);
    let wait = Duration::from_millis(50);
    let errors = [
        ("status", job.status().await.map(drop)),
        ("result", job.result().await.map(drop)),
        ("wait", job.wait(wait).await.map(drop)),
        ("Inspector::wait", client.inspector().wait(job.address(), wait).await.map(drop)),
    ];
    for (what, answer) in errors {
        let error = answer.unwrap_err();
        assert!(matches!(error, Error::Unavailable { .. }), "{what}: {error}");
        assert!(!error.to_string().contains("may have been carried out"), "{what}: {error}");
    }
}
