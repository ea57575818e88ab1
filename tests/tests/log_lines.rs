//! What operators read: a dead letter is one line, whichever way its job died, and an outage is
//! two.

use std::{collections::BTreeMap, sync::Arc, time::Duration};

use queue_conformance::failing::{FailingBroker, Fault};
use queue_core::{
    __private::SqliteBroker,
    JobAddress, JobId, RawJob, Registry,
    broker::{DynBroker, Enqueue, NewJob, ProcessId, Register, Turn},
    observe::Calls,
    prelude::*,
};
use queue_tests::{
    folder::folder,
    log_lines::{Line, lines, note},
    on_servers,
    patience::{WatchBroker, output, until},
    server::{Kind, Server},
};
use queue_worker::{Shutdown, Stopped, Worker};
use tokio::task::JoinHandle;
use tracing::Level;

/// Long enough that a busy machine does not lose a lease, which would be a further line.
const LEASE: Duration = Duration::from_secs(4);

#[task]
async fn sound(_n: u32) {}

#[task]
async fn gives_up() -> Result<(), Outcome> {
    Err(Outcome::Bury("there is no such account".to_owned()))
}

#[task(max_attempts = 2, backoff(base = "1ms"))]
async fn hopeless() -> Result<(), String> {
    Err("the card was declined".to_owned())
}

#[task]
async fn kills_its_process() {}

#[task]
async fn runs_on(gate: Data<Gate>) {
    gate.0.subscribe().wait_for(|open| *open).await.unwrap();
}

#[derive(Default)]
struct Gate(tokio::sync::watch::Sender<bool>);

on_servers! {
    every_dead_letter_on_a_server_is_one_line
    an_outage_of_a_server_is_two_lines
    a_worker_that_starts_before_its_server_reports_it_once
    a_flush_is_one_line_and_doctor_reports_it
    heartbeats_that_are_refused_are_two_lines
}

fn worker(client: &Client, gate: &Arc<Gate>) -> Worker {
    let worker = Worker::new(client.clone()).registry(Registry::empty());
    let worker = worker
        .unreadable_for(Duration::ZERO)
        .register::<sound>()
        .register::<gives_up>()
        .register::<hopeless>()
        .register::<kills_its_process>();
    worker.register::<runs_on>().shared_data(gate.clone()).lease(LEASE)
}

fn start(worker: Worker, shutdown: &Shutdown) -> JoinHandle<Stopped> {
    let running = worker.run_with(shutdown.clone());
    tokio::spawn(async { running.await.unwrap() })
}

async fn every_dead_letter_on_a_server_is_one_line(kind: Kind) {
    let server = Server::start(kind);
    every_dead_letter_is_one_line(&server.url(), &format!("letters-{kind:?}")).await;
}

/// An adapter calls it for each outbox that it opens.
#[test]
fn a_sqlite_with_the_wal_reset_bug_is_one_line_that_names_its_version() {
    note();
    for version in ["3.50.7", "3.50.4", "3.50.4"] {
        queue_outbox::adapter::warn_of_wal_reset_bug(version);
    }
    let told = lines(|line| line.message.contains("WAL-reset bug"));
    let [line] = &told[..] else { panic!("one line: {told:?}") };
    assert_eq!((line.level, line.field("version")), (Level::WARN, "3.50.4"));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn every_dead_letter_in_a_file_is_one_line() {
    let folder = folder();
    every_dead_letter_is_one_line(&format!("sqlite://{}", folder.path().join("queue.db").display()), "letters-sqlite").await;
}

async fn every_dead_letter_is_one_line(url: &str, queue: &str) {
    note();
    let client = Client::connect(url).await.unwrap().watched();
    let mut expected = BTreeMap::new();
    let mut expect = |job: &JobAddress, task: &str, reason: &str, attempts: u32, error: &str| {
        let line = [task, reason, &attempts.to_string(), error].map(str::to_owned);
        expected.insert(job.to_string(), line);
    };
    // Its process is gone, with a job in its hands; nobody has to wait for the lease of the worker
    // then.
    let killed = kills_its_process::job().queue(queue).id("killed").enqueue(&client).await.unwrap();
    expect(killed.address(), "kills_its_process", "crashed", 0, "the process that ran it died, or lost the broker");
    die_with_one(client.broker(), queue).await;
    let buried = gives_up::job().queue(queue).enqueue(&client).await.unwrap();
    expect(buried.address(), "gives_up", "buried", 1, "there is no such account");
    let failed = hopeless::job().queue(queue).enqueue(&client).await.unwrap();
    expect(failed.address(), "hopeless", "failed", 2, "the card was declined");
    let (misfit, _) = client.enqueue_raw(RawJob::new("sound", vec![0x80]).queue(queue)).await.unwrap();
    expect(&misfit, "sound", "undecodable", 1, "parameter `_n` is missing");
    let junk = JobAddress { queue: queue.into(), id: JobId::make() };
    put_junk(client.broker(), &junk).await;
    expect(&junk, "", "undecodable", 1, "envelope");

    let shutdown = Shutdown::new();
    let running = start(worker(&client, &Arc::default()).queue(queue).max_crashes(1), &shutdown);
    let letters = || lines(|line| line.level == Level::ERROR && line.field("job").starts_with(&format!("{queue}/")));
    until("a line for each", async || letters().len() >= expected.len()).await;
    shutdown.drain();
    assert!(running.await.unwrap().is_clean());
    let mut found = letters();
    found.sort_by_key(|line| line.field("job").to_owned());
    assert_eq!(found.len(), expected.len(), "one line each: {found:#?}");
    for line in found {
        println!("{line:?}");
        let [task, reason, attempts, error] = &expected[line.field("job")];
        assert_eq!(["task", "reason", "attempts"].map(|name| line.field(name)), [task, reason, attempts], "{line:?}");
        assert!(line.field("error").contains(error.as_str()), "{line:?}");
        // A person takes it from there to the commands.
        let job = client.inspector().find(line.field("job")).await.unwrap();
        let record = client.inspector().show(&job).await.unwrap();
        let reason = record.reason.map(|reason| reason.name());
        assert_eq!((reason, record.failures.to_string().as_str()), (Some(line.field("reason")), attempts.as_str()));
    }
}

/// Claims a job as a process that dies.
async fn die_with_one(broker: &DynBroker, queue: &str) {
    let lease = Duration::from_secs(1);
    let name = broker.register(&Register::lane(queue, ProcessId::random(), lease)).await.unwrap().name;
    let mut turn = Turn::new(queue, name, 1, lease);
    turn.claim = 1;
    assert_eq!(broker.turn(&turn).await.unwrap().deliveries.len(), 1);
}

/// Stores a job whose envelope nobody can read.
async fn put_junk(broker: &DynBroker, job: &JobAddress) {
    let name = broker.register(&Register::producer(job.queue.clone(), ProcessId::random())).await.unwrap().name;
    let junk = NewJob::new(job.id.clone(), b"junk".to_vec());
    broker.enqueue(&Enqueue::new(job.queue.clone(), name, 1, vec![junk])).await.unwrap();
}

/// The lines of an outage, and whatever else was said of the broker or of these queues: warnings
/// and worse, but for those of a start.
fn of_the_outage(location: &str, queues: &str) -> Vec<Line> {
    lines(|line| {
        let about = line.field("broker") == location || line.field("queue").starts_with(queues) || line.field("job").starts_with(queues);
        let of_a_start = !line.field("durability").is_empty()
            || line.message.contains("no task of this program has this queue")
            || line.message.contains("no worker has ever served");
        line.level <= Level::WARN && about && !of_a_start
    })
}

/// Two lines, whatever the worker did meanwhile: one for the begin and one for the end.
fn are_two(found: &[Line], location: &str) {
    let [begin, end] = found else { panic!("a line for the begin and one for the end: {found:#?}") };
    println!("{begin:?}\n{end:?}");
    assert!(begin.message.starts_with("the broker does not answer") && !begin.field("error").is_empty(), "{begin:?}");
    assert!(end.message.starts_with("the broker answers again") && end.field("lasted").ends_with('s'), "{end:?}");
    for line in [begin, end] {
        assert_eq!((line.level, line.field("broker"), line.field("queue")), (Level::WARN, location, ""));
    }
}

async fn an_outage_of_a_server_is_two_lines(kind: Kind) {
    note();
    let mut server = Server::durable(kind);
    let client = Client::connect(&server.url()).await.unwrap().watched();
    let (gate, shutdown, queues) = (Arc::new(Gate::default()), Shutdown::new(), format!("away-{kind:?}-"));
    let calls = Arc::new(Calls::default());
    let worker = serving(&client, &gate, &queues).map_client(|client| client.with_observer(calls.clone()));
    let running = start(worker, &shutdown);
    for n in 0..QUEUES {
        let queue = format!("{queues}{n}");
        // One runs through the outage, and one is handed in in the middle of it.
        runs_on::job().queue(&queue).enqueue(&client).await.unwrap();
        until("a job to run", async || active(&client, &queue).await == 1).await;
    }
    let location = client.info().location;
    for outage in 1..=2 {
        server.kill();
        until("a line for the begin", async || of_the_outage(&location, &queues).len() == 2 * outage - 1).await;
        if outage == 2 {
            gate.0.send_replace(true);
        }
        // Heartbeats, turns of all queues, and the reclaimer.
        let before = failures(&calls);
        until("all to meet with it", async || failures(&calls) > before + 40).await;
        server.restart();
        until("a line for the end", async || of_the_outage(&location, &queues).len() == 2 * outage).await;
        // It works again, on every queue.
        for n in 0..QUEUES {
            let sound = sound::job(1).queue(format!("{queues}{n}")).retention(Duration::from_secs(60)).enqueue(&client).await.unwrap();
            until("a job to be done", async || sound.status().await.unwrap() == Some(queue_core::broker::JobState::Done)).await;
        }
        are_two(&of_the_outage(&location, &queues)[2 * outage - 2..], &location);
    }
    shutdown.drain();
    running.await.unwrap();
}

/// Calls that have failed.
fn failures(calls: &Calls) -> u64 {
    calls.snapshot().values().flat_map(|verb| verb.errors.values()).sum()
}

/// Queues of a worker that meet with an outage.
const QUEUES: usize = 8;

fn serving(client: &Client, gate: &Arc<Gate>, queues: &str) -> Worker {
    (0..QUEUES).fold(worker(client, gate), |worker, n| worker.queue(format!("{queues}{n}").as_str()))
}

async fn active(client: &Client, queue: &str) -> u64 {
    client.inspector().stats(queue).await.unwrap().count(queue_core::broker::JobState::Active)
}

async fn a_worker_that_starts_before_its_server_reports_it_once(kind: Kind) {
    note();
    let mut server = Server::start(kind);
    server.kill();
    let client = Client::open(&server.url()).await.unwrap();
    let (shutdown, location, queues) = (Shutdown::new(), client.info().location, format!("early-{kind:?}-"));
    let calls = Arc::new(Calls::default());
    let worker = serving(&client, &Arc::default(), &queues).map_client(|client| client.with_observer(calls.clone()));
    let running = start(worker, &shutdown);
    until("a line for the begin", async || of_the_outage(&location, &queues).len() == 1).await;
    until("it to try again", async || failures(&calls) > 3).await;
    server.restart();
    until("its work to begin", async || client.inspector().queues().await.is_ok_and(|queues| queues.len() == QUEUES)).await;
    are_two(&of_the_outage(&location, &queues), &location);
    shutdown.drain();
    running.await.unwrap();
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_outage_of_a_file_is_two_lines_and_a_worker_that_stops_in_it_does_not_report_that_it_is_over() {
    note();
    let folder = folder();
    let inner = SqliteBroker::open(&format!("sqlite://{}", folder.path().join("queue.db").display())).unwrap() as DynBroker;
    let cut = FailingBroker::new(inner.clone());
    let client = Client::with_broker(cut.clone() as DynBroker);
    let (gate, shutdown, queues, location) = (Arc::new(Gate::default()), Shutdown::new(), "cut-", inner.info().location);
    let running = start(serving(&client, &gate, queues).grace(Duration::from_millis(400)), &shutdown);
    let (sound, job) = (Client::with_broker(inner), runs_on::job().queue("cut-0"));
    job.enqueue(&sound).await.unwrap();
    until("a job to run", async || active(&sound, "cut-0").await == 1).await;
    cut.fail(Fault::RequestLost, u32::MAX);
    until("a line for the begin", async || of_the_outage(&location, queues).len() == 1).await;
    let failed = cut.failed();
    until("all to meet with it", async || cut.failed() > failed + 40).await;
    cut.fail(Fault::RequestLost, 0);
    until("a line for the end", async || of_the_outage(&location, queues).len() == 2).await;
    are_two(&of_the_outage(&location, queues), &location);
    cut.fail(Fault::RequestLost, u32::MAX);
    until("a line for the begin", async || of_the_outage(&location, queues).len() == 3).await;
    shutdown.drain();
    running.await.unwrap();
    assert_eq!(of_the_outage(&location, queues).len(), 3, "nobody knows that it is over");
}

async fn a_flush_is_one_line_and_doctor_reports_it(kind: Kind) {
    note();
    let server = Server::start(kind);
    let client = Client::connect(&server.url()).await.unwrap().watched();
    let (gate, shutdown, queues) = (Arc::new(Gate::default()), Shutdown::new(), format!("flushed-{kind:?}-"));
    let running = start(serving(&client, &gate, &queues), &shutdown);
    for n in 0..QUEUES {
        runs_on::job().queue(format!("{queues}{n}")).enqueue(&client).await.unwrap();
        until("a job to run", async || active(&client, &format!("{queues}{n}")).await == 1).await;
    }
    server.command(&["FLUSHALL"]);
    let location = client.info().location;
    let told = || lines(|line| line.message.starts_with("the broker has lost data") && line.field("broker") == location);
    until("the loss to be told", async || !told().is_empty()).await;
    until("every queue to be served again", async || client.inspector().queues().await.is_ok_and(|queues| queues.len() == QUEUES)).await;
    until("the loss to be noted", async || client.inspector().stats(&format!("{queues}0")).await.unwrap().lost_at.is_some()).await;
    assert_eq!(told().len(), 1, "{:#?}", told());
    let mut doctor = std::process::Command::new(env!("CARGO_BIN_EXE_shop_worker"));
    let output = output(doctor.args(["doctor", "--url", &server.url()])).unwrap();
    let text = String::from_utf8(output.stdout).unwrap();
    assert!(text.contains(&format!("{queues}0: ")) && text.contains("lost data") && text.contains("may be missing"), "{text}");
    gate.0.send_replace(true);
    shutdown.drain();
    running.await.unwrap();
}

async fn heartbeats_that_are_refused_are_two_lines(kind: Kind) {
    note();
    let server = Server::start(kind);
    let client = Client::connect(&server.url()).await.unwrap().watched();
    let (gate, shutdown, queue) = (Arc::new(Gate::default()), Shutdown::new(), format!("refused-{kind:?}"));
    let running = start(worker(&client, &gate).queue(queue.as_str()), &shutdown);
    runs_on::job().queue(&queue).enqueue(&client).await.unwrap();
    until("a job to run", async || active(&client, &queue).await == 1).await;
    let location = client.info().location;
    let told = || lines(|line| line.message.starts_with("leases ") && line.field("broker") == location);
    let refused = || {
        let errors: Vec<String> =
            server.ask(&["INFO", "errorstats"]).map(|text: String| text.lines().map(str::to_owned).collect()).unwrap();
        let count = errors.iter().find_map(|line| line.strip_prefix("errorstat_NOPERM:count=")?.trim().parse::<u32>().ok());
        count.unwrap_or(0)
    };
    server.command(&["ACL", "SETUSER", "default", "-evalsha", "-eval"]);
    until("the begin to be told", async || !told().is_empty()).await;
    // Turns are refused, too, and more rarely from time to time.
    let before = refused();
    until("further heartbeats to be refused", async || refused() > before + 8).await;
    assert_eq!(told().len(), 1, "{:#?}", told());
    server.command(&["ACL", "SETUSER", "default", "+evalsha", "+eval"]);
    until("the end to be told", async || told().len() == 2).await;
    assert!(told()[1].message == "leases are renewed again" && !told()[1].field("lasted").is_empty(), "{:#?}", told());
    gate.0.send_replace(true);
    shutdown.drain();
    running.await.unwrap();
}

/// The first enqueue of a client says that a queue is perhaps misspelt, and which was meant.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_queue_that_no_worker_has_ever_served_is_one_line() {
    note();
    let folder = folder();
    let client = Client::connect(&format!("sqlite://{}", folder.path().join("queue.db").display())).await.unwrap().watched();
    let shutdown = Shutdown::new();
    let running = start(worker(&client, &Arc::default()).queue("unserved-orders"), &shutdown);
    until("the worker to be there", async || client.inspector().workers().await.unwrap().len() == 1).await;
    for n in 0..3 {
        sound::job(n).queue("unserved-ordres").enqueue(&client).await.unwrap();
        sound::job(n).queue("unserved-orders").enqueue(&client).await.unwrap();
    }
    let told = || lines(|line| line.message.contains("no worker has ever served") && line.field("queue").starts_with("unserved-"));
    until("a line", async || !told().is_empty()).await;
    let strict = client.served_queues_only();
    let refused = sound::job(9).queue("unserved-ordres").enqueue(&strict).await.unwrap_err();
    assert!(refused.to_string().contains("did you mean `unserved-orders`?"), "{refused}");
    sound::job(9).queue("unserved-orders").enqueue(&strict).await.unwrap();
    let [line] = &told()[..] else { panic!("one line: {:#?}", told()) };
    assert!(line.field("queue") == "unserved-ordres" && line.message.ends_with("did you mean `unserved-orders`?"), "{line:?}");
    shutdown.drain();
    running.await.unwrap();
}
