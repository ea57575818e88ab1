//! A worker whose broker does not answer: it loses nothing, doubles nothing, starts nothing, and says so.

use std::{
    collections::HashMap,
    net::{SocketAddr, TcpListener},
    sync::{Arc, Mutex},
    time::Instant,
};

use queue_core::{
    broker::{CrashRule, DynBroker, ProcessId, Register, Turn},
    context::CancelCause,
    prelude::*,
    registry::Registry,
    sqlite::SqliteBroker,
};
use queue_tests::{
    failing::{FailingBroker, Fault},
    patience::until,
    server::{Kind, Server},
};
use queue_worker::{Shutdown, Stopped, Worker};
use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    net::TcpStream,
    task::JoinHandle,
};

const LEASE: Duration = Duration::from_millis(1200);

/// What handlers tell their test, by job.
#[derive(Default)]
struct Seen {
    runs: Mutex<HashMap<u32, Vec<String>>>,
    open: tokio::sync::watch::Sender<bool>,
}

impl Seen {
    fn note(&self, job: u32, what: impl Into<String>) {
        self.runs.lock().unwrap().entry(job).or_default().push(what.into());
    }

    fn of(&self, job: u32) -> Vec<String> {
        self.runs.lock().unwrap().get(&job).cloned().unwrap_or_default()
    }

    fn starts(&self) -> usize {
        self.runs.lock().unwrap().values().flatten().filter(|note| *note == "start").count()
    }

    async fn wait(&self) {
        let mut open = self.open.subscribe();
        open.wait_for(|open| *open).await.expect("the sender lives as long as this");
    }
}

#[task(queue = "quick")]
async fn quick(job: u32, seen: State<Seen>) {
    seen.note(job, "start");
}

#[task(queue = "slow", retention = "1h")]
async fn slow(job: u32, seen: State<Seen>, ctx: JobContext) {
    seen.note(job, "start");
    tokio::select! {
        () = seen.wait() => seen.note(job, "end"),
        cause = ctx.cancelled() => seen.note(job, format!("{cause:?}")),
    }
}

#[task(queue = "slow", on_isolation = "cancel", retention = "1h")]
async fn gives_way(job: u32, seen: State<Seen>, ctx: JobContext) {
    seen.note(job, "start");
    let cause = ctx.cancelled().await;
    assert_eq!(cause, CancelCause::LeaseLost);
    seen.note(job, "gave way");
}

#[task(queue = "quick")]
async fn long(job: u32, seen: State<Seen>) {
    seen.note(job, "start");
    seen.wait().await;
}

/// Cuts off its own worker and blocks everything for longer than a lease: the first that runs.
#[task(queue = "quick")]
async fn cuts_off(job: u32, seen: State<Seen>, cut: State<FailingBroker>) {
    seen.note(job, "start");
    if seen.starts() == 1 {
        cut.fail(Fault::RequestLost, u32::MAX);
        std::thread::sleep(LEASE * 3 / 2);
        seen.note(job, "end");
    }
}

/// A broker that works, and the same one behind a line that can be cut.
struct Scene {
    sound: Client,
    cut: Arc<FailingBroker>,
    seen: Arc<Seen>,
    shutdown: Shutdown,
}

impl Scene {
    fn new() -> Self {
        let inner = SqliteBroker::open("sqlite::memory:").unwrap() as DynBroker;
        let cut = FailingBroker::new(inner.clone());
        Scene { sound: Client::with_broker(inner), cut, seen: Arc::default(), shutdown: Shutdown::new() }
    }

    /// A worker behind the line.
    fn worker(&self) -> Worker {
        let client = Client::with_broker(self.cut.clone() as DynBroker);
        self.worker_of(client).lease(LEASE).concurrency(16).grace(Duration::from_secs(5))
    }

    /// A worker of the tasks of this file alone: others that are linked in want states of their own.
    fn worker_of(&self, client: Client) -> Worker {
        let worker = Worker::new(client).registry(Registry::empty());
        worker
            .register::<quick>()
            .register::<long>()
            .register::<slow>()
            .register::<gives_way>()
            .register::<cuts_off>()
            .shared_state(self.seen.clone())
            .shared_state(self.cut.clone())
    }

    fn start(&self, worker: Worker) -> JoinHandle<Stopped> {
        let running = worker.run_with(self.shutdown.clone());
        tokio::spawn(async { running.await.unwrap() })
    }

    async fn end(self, running: JoinHandle<Stopped>) -> Stopped {
        self.cut.fail(Fault::RequestLost, 0);
        self.shutdown.drain();
        tokio::time::timeout(Duration::from_secs(30), running).await.expect("the worker ends").unwrap()
    }

    async fn released(&self, queue: &str) -> u64 {
        self.sound.inspector().stats(queue).await.unwrap().counters.get("released").copied().unwrap_or(0)
    }

    async fn seen(&self, job: u32, what: &str) {
        until(what, async || self.seen.of(job).iter().any(|note| note == what)).await;
    }
}

fn free_address() -> SocketAddr {
    TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap()
}

/// The status line and the body of `/health`.
async fn health(address: SocketAddr) -> String {
    let mut answer = String::new();
    let Ok(mut stream) = TcpStream::connect(address).await else { return answer };
    stream.write_all(b"GET /health HTTP/1.1\r\n\r\n").await.unwrap();
    stream.read_to_string(&mut answer).await.unwrap();
    answer
}

#[tokio::test]
async fn answers_that_are_lost_again_and_again_double_nothing_and_lose_nothing() {
    const ROUNDS: u32 = 15;
    const JOBS: u32 = 40;
    let scene = Scene::new();
    let running = scene.start(scene.worker());
    until("its first claim", async || scene.sound.inspector().stats("quick").await.unwrap().workers > 0).await;
    for round in 0..ROUNDS {
        // The answers of the next calls are lost, whichever they are: claims, endings, both; then a request.
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
    let depth = sound.inspector().stats("quick").await.unwrap().depth;
    assert!(depth.values().all(|jobs| *jobs == 0), "every ending was taken in: {depth:?}");
}

#[tokio::test]
async fn a_worker_out_of_reach_starts_nothing_says_so_and_comes_back_by_itself() {
    let (scene, address) = (Scene::new(), free_address());
    let running = scene.start(scene.worker().health(address));
    until("health", async || health(address).await.starts_with("HTTP/1.1 200 ")).await;
    scene.cut.fail(Fault::RequestLost, u32::MAX);
    until("isolation", async || {
        let health = health(address).await;
        health.starts_with("HTTP/1.1 503 ") && health.contains(r#""status":"isolated""#)
    })
    .await;
    quick::job(1).enqueue(&scene.sound).await.unwrap();
    assert_eq!(scene.seen.starts(), 0);
    scene.cut.fail(Fault::RequestLost, 0);
    scene.seen(1, "start").await;
    until("health", async || health(address).await.starts_with("HTTP/1.1 200 ")).await;
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
    until("beats to be lost", async || scene.cut.failed() >= lost + 2).await;
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
    let silent = Register::worker("quick", ProcessId::random(), Duration::from_millis(1));
    broker.register(&silent).await.unwrap();
    let suspected = async || !broker.suspects("quick", 10).await.unwrap().expired.is_empty();
    until("its lease to end", async || suspected().await).await;
    let lease = LEASE * 5;
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
    let running = scene.start(scene.worker());
    scene.seen(1, "start").await;
    scene.cut.fail(Fault::RequestLost, u32::MAX);
    // What is tried within the lease while a job runs is its beats.
    until("a beat to be lost", async || scene.cut.failed() > 0).await;
    scene.cut.fail(Fault::RequestLost, 0);
    scene.seen.open.send_replace(true);
    until("the end of the job", async || job.status().await.unwrap() == Some(queue_core::broker::State::Done)).await;
    assert_eq!(scene.seen.of(1), ["start", "end"]);
    scene.end(running).await;
}

#[tokio::test]
async fn a_queue_that_is_not_answered_takes_no_slot_from_the_others() {
    let scene = Scene::new();
    let running = scene.start(scene.worker().concurrency(1));
    quick::job(1).enqueue(&scene.sound).await.unwrap();
    scene.seen(1, "start").await;
    scene.cut.hold(Some("slow"));
    let late = slow::job(2).enqueue(&scene.sound).await.unwrap();
    until("a turn to be kept", async || scene.cut.holding() > 0).await;
    long::job(3).enqueue(&scene.sound).await.unwrap();
    scene.seen(3, "start").await;
    // The answer comes after all, and finds no slot.
    scene.cut.hold(None);
    until("the job to go back", async || scene.released("slow").await == 1).await;
    scene.seen.open.send_replace(true);
    until("its end", async || late.status().await.unwrap() == Some(queue_core::broker::State::Done)).await;
    assert_eq!(scene.seen.of(2), ["start", "end"]);
    assert_eq!(scene.sound.inspector().show(late.address()).await.unwrap().attempts, 0);
    scene.end(running).await;
}

#[tokio::test]
async fn queues_whose_server_is_away_keep_no_other_from_being_served() {
    let scene = Scene::new();
    scene.cut.hold(Some("away"));
    let away = (0..200).map(|number| format!("away-{number}"));
    let worker = away.fold(scene.worker(), |worker, queue| worker.queue(queue.as_str())).queue("quick");
    quick::job(1).enqueue(&scene.sound).await.unwrap();
    quick::job(2).queue("away-150").enqueue(&scene.sound).await.unwrap();
    let running = scene.start(worker);
    scene.seen(1, "start").await;
    assert_eq!(scene.seen.of(2), [""; 0]);
    scene.cut.hold(None);
    scene.seen(2, "start").await;
    scene.end(running).await;
}

/// A worker that claims a job of a queue and is never heard of again.
async fn claim_and_die(client: &Client, queue: &str) {
    let lease = Duration::from_millis(50);
    let name = client.broker().register(&Register::worker(queue, ProcessId::random(), lease)).await.unwrap();
    let answer = client.broker().turn(&Turn::new(queue, name, 1, lease).claim(1)).await.unwrap();
    assert_eq!(answer.deliveries.len(), 1);
}

/// Makes the only job of a queue a suspect.
async fn make_suspect(client: &Client, queue: &str) {
    claim_and_die(client, queue).await;
    let broker = client.broker();
    until("its lease to run out", async || !broker.suspects(queue, 10).await.unwrap().expired.is_empty()).await;
    let lapsed = broker.suspects(queue, 10).await.unwrap().expired;
    assert_eq!(broker.fence(queue, &lapsed).await.unwrap(), [true]);
    let at_once = CrashRule { delay: Duration::ZERO, ..CrashRule::default() };
    assert_eq!(broker.sweep_fenced(queue, &at_once).await.unwrap().charged, 1);
}

#[tokio::test]
async fn a_claim_that_is_not_answered_keeps_no_suspect_of_another_queue_from_running() {
    let scene = Scene::new();
    let inspector = scene.sound.inspector();
    long::job(2).enqueue(&scene.sound).await.unwrap();
    make_suspect(&scene.sound, "quick").await;
    inspector.pause("quick").await.unwrap();
    let running = scene.start(scene.worker().queue("away").queue("quick"));
    let serves = async |queue: &str| inspector.stats(queue).await.unwrap().workers > 0;
    until("it to serve both", async || serves("away").await && serves("quick").await).await;
    scene.cut.hold(Some("away"));
    long::job(1).queue("away").enqueue(&scene.sound).await.unwrap();
    until("a claim to be on its way", async || scene.cut.holding() > 0).await;
    make_suspect(&scene.sound, "away").await;
    inspector.resume("quick").await.unwrap();
    scene.seen(2, "start").await;
    // What the late answer brings must not run beside the other.
    scene.cut.hold(None);
    until("it to be given back", async || scene.released("away").await == 1).await;
    assert_eq!(scene.seen.of(1), [""; 0]);
    scene.seen.open.send_replace(true);
    scene.seen(1, "start").await;
    scene.end(running).await;
}

/// The claims of one that is away are small, as others leave little, so that it keeps room for more than it can ask for.
#[tokio::test]
async fn a_queue_whose_claims_all_hang_keeps_no_slot_from_another() {
    let scene = Scene::new();
    let serves = async |queue: &str| scene.sound.inspector().stats(queue).await.unwrap().workers > 0;
    let running = scene.start(scene.worker().queue("away").queue("quick"));
    until("it to serve both", async || serves("away").await && serves("quick").await).await;
    scene.sound.enqueue_all((0..15).map(long::job)).await.unwrap();
    until("one slot to be left", async || scene.seen.starts() == 15).await;
    scene.cut.hold(Some("away"));
    until("no further claim to be possible", async || {
        quick::job(99).queue("away").enqueue(&scene.sound).await.unwrap();
        scene.cut.holding() == 4
    })
    .await;
    scene.seen.open.send_replace(true);
    until("the others to end", async || scene.sound.inspector().stats("quick").await.unwrap().counters.get("done") == Some(&15)).await;
    scene.seen.open.send_replace(false);
    scene.sound.enqueue_all((100..116).map(long::job)).await.unwrap();
    until("all slots to be used", async || scene.seen.starts() == 31).await;
    scene.seen.open.send_replace(true);
    scene.cut.hold(None);
    scene.end(running).await;
}

/// On a server, as other hands can make it refuse what concerns one queue.
#[tokio::test]
async fn a_queue_that_is_refused_keeps_the_jobs_of_the_dead_in_no_other() {
    let server = Server::start(Kind::Redis);
    let client = Client::connect(&server.url()).await.unwrap();
    let scene = Scene::new();
    server.command(&["SET", "queue:{broken}:fenced", "no set"]);
    quick::job(1).enqueue(&client).await.unwrap();
    claim_and_die(&client, "quick").await;
    let running = scene.start(scene.worker_of(client).lease(LEASE).queue("broken").queue("quick"));
    scene.seen(1, "start").await;
    scene.end(running).await;
}

#[tokio::test]
async fn in_isolation_only_a_task_that_asks_for_it_is_cancelled() {
    let scene = Scene::new();
    slow::job(1).enqueue(&scene.sound).await.unwrap();
    gives_way::job(2).enqueue(&scene.sound).await.unwrap();
    let running = scene.start(scene.worker());
    scene.seen(1, "start").await;
    scene.seen(2, "start").await;
    let before = Instant::now();
    scene.cut.fail(Fault::RequestLost, u32::MAX);
    scene.seen(2, "gave way").await;
    assert!(before.elapsed() > LEASE / 2, "not before its lease is over");
    assert_eq!(scene.seen.of(1), ["start"]);
    scene.seen.open.send_replace(true);
    scene.seen(1, "end").await;
    scene.end(running).await;
}

#[tokio::test]
async fn who_was_cut_off_for_too_long_is_told_and_cannot_spoil_what_its_successor_did() {
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
    until("the end of the job", async || job.status().await.unwrap() == Some(queue_core::broker::State::Done)).await;
    successor.drain();
    rival.await.unwrap().unwrap();
    let record = scene.sound.inspector().show(job.address()).await.unwrap();
    assert_eq!(record.attempts, 0, "a lost lease is no failed attempt");
    let seen = scene.seen.clone();
    scene.end(lost).await;
    assert_eq!(seen.of(1), ["start", "start", "LeaseLost", "end"]);
}

#[tokio::test]
async fn what_a_worker_held_when_its_broker_forgot_it_runs_again_and_is_charged_nothing() {
    let scene = Scene::new();
    let job = slow::job(1).enqueue(&scene.sound).await.unwrap();
    let running = scene.start(scene.worker().concurrency(1));
    scene.seen(1, "start").await;
    scene.cut.fail(Fault::Forgotten, 1);
    scene.seen(1, "LeaseLost").await;
    until("the second start", async || scene.seen.starts() == 2).await;
    assert_eq!(scene.sound.inspector().show(job.address()).await.unwrap().crashes, 0);
    let counters = scene.sound.inspector().stats("slow").await.unwrap().counters;
    assert_eq!((counters.get("forgotten"), counters.get("crashed").copied().unwrap_or(0)), (Some(&1), 0), "{counters:?}");
    scene.seen.open.send_replace(true);
    scene.seen(1, "end").await;
    scene.end(running).await;
}

#[tokio::test]
async fn a_worker_without_a_broker_still_stops_in_time() {
    let scene = Scene::new();
    let running = scene.start(scene.worker().grace(Duration::from_secs(600)));
    until("its first claim", async || scene.sound.inspector().stats("quick").await.unwrap().workers > 0).await;
    scene.cut.fail(Fault::RequestLost, u32::MAX);
    until("a poll that nobody answers", async || scene.cut.failed() > 0).await;
    let before = Instant::now();
    scene.shutdown.drain();
    tokio::time::timeout(Duration::from_secs(30), running).await.expect("the worker ends").unwrap();
    assert!(before.elapsed() < Duration::from_secs(10), "{:?}", before.elapsed());
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
    let stopped = tokio::time::timeout(Duration::from_secs(30), running).await.expect("the worker ends").unwrap();
    assert_eq!((stopped.finished, stopped.unconfirmed, stopped.is_clean()), (1, 1, false));
}
