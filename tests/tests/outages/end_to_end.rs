//! Whole processes: workers that are killed, stopped and held, and servers under them.

use std::{
    collections::{BTreeMap, BTreeSet},
    path::PathBuf,
    process::Command,
    time::Duration,
};

use queue_core::{
    Client,
    broker::{BuryReason, Counter, JobState, QueueStats},
};
use queue_tests::{
    chronicle::{abort, record},
    folder::folder,
    patience::{WatchBroker, until},
    process::Process,
    server::{Kind, Server},
};

/// What a dead worker held waits for so long.
const LEASE: Duration = Duration::from_secs(2);

/// The same where a worker that lives must not lose its jobs, however busy the machine.
const LONG_LEASE: Duration = Duration::from_secs(4);

const QUEUE: &str = "chronicle";

macro_rules! on_every_broker {
    ($($case:ident)*) => {
        mod on_sqlite {
            $(#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
            async fn $case() {
                super::$case(super::Stage::on_a_file().await).await;
            })*
        }
        mod on_redis {
            $(#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
            async fn $case() {
                super::$case(super::Stage::on_a_server(super::Kind::Redis).await).await;
            })*
        }
        mod on_valkey {
            $(#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
            async fn $case() {
                super::$case(super::Stage::on_a_server(super::Kind::Valkey).await).await;
            })*
        }
    };
}

on_every_broker! {
    workers_that_are_killed_lose_no_job
    a_worker_that_is_asked_to_stop_ends_its_jobs_and_leaves_the_rest
    a_job_that_kills_its_process_is_buried_and_its_neighbours_are_not
    a_worker_that_was_held_beyond_its_lease_can_change_nothing
}

/// Workers die in the middle of their jobs, again and again: everything is done in the end, and
/// only what a dead one held ran twice.
async fn workers_that_are_killed_lose_no_job(stage: Stage) {
    let stage = stage.leasing(LONG_LEASE);
    const JOBS: u32 = 240;
    stage.enqueue(0..JOBS, 30).await;
    let mut workers = vec![stage.worker(), stage.worker()];
    let mut killed = BTreeSet::new();
    for round in 1..=3 {
        until("some jobs to be done", || async { stage.counter(Counter::Done).await >= round * 40 }).await;
        let worker = workers.remove(0);
        killed.insert(worker.id());
        worker.kill();
        workers.push(stage.worker());
    }
    until("all jobs to be done", || async { stage.counter(Counter::Done).await >= u64::from(JOBS) }).await;
    let stats = stage.stats().await;
    assert_eq!(stats.total(Counter::Done), u64::from(JOBS), "each is acknowledged once");
    assert_eq!(stats.jobs(), 0, "{stats:?}");
    let ended = stage.times("end");
    assert!((0..JOBS).all(|number| ended.contains_key(&number)), "each has run to its end");
    let (starts, mut twice) = (stage.processes("start"), 0);
    for (number, processes) in starts {
        let (_, before) = processes.split_last().unwrap();
        assert!(
            before.iter().all(|process| killed.contains(process)),
            "job {number} was taken from one of {before:?}, and {killed:?} died"
        );
        twice += before.len() as u64;
    }
    assert!(
        twice <= stats.total(Counter::Reclaimed),
        "{twice} further starts, of {} that were taken back",
        stats.total(Counter::Reclaimed)
    );
    assert_eq!(stats.total(Counter::Failed), 0, "a death is no failure");
}

/// SIGTERM: what runs comes to its end, what waits is left alone, and nothing is charged.
async fn a_worker_that_is_asked_to_stop_ends_its_jobs_and_leaves_the_rest(stage: Stage) {
    let stage = stage.leasing(LONG_LEASE);
    stage.enqueue(0..200, 100).await;
    let worker = stage.worker();
    until("some jobs to be done", || async { stage.counter(Counter::Done).await >= 10 }).await;
    assert_eq!(worker.stop().await, Some(0));
    let stats = stage.stats().await;
    let done = stats.total(Counter::Done);
    assert_eq!((stats.count(JobState::Active), stats.count(JobState::Ready)), (0, 200 - done));
    assert_eq!(u64::try_from(stage.times("end").len()).unwrap(), done);
    let _worker = stage.worker();
    until("the others to be done", || async { stage.counter(Counter::Done).await == 200 }).await;
    assert!(stage.times("start").values().all(|times| *times == 1), "no job ran twice");
    let stats = stage.stats().await;
    assert_eq!([Counter::Failed, Counter::Crashed, Counter::Reclaimed].map(|counter| stats.total(counter)), [0; 3], "{stats:?}");
}

/// The poisonous job is found: it is dead, as `crashed`, and those that were held with it are done.
async fn a_job_that_kills_its_process_is_buried_and_its_neighbours_are_not(stage: Stage) {
    let poison = abort::job(1000).enqueue(&stage.client).await.unwrap();
    stage.enqueue(0..20, 200).await;
    let mut worker = stage.worker();
    until("the poison to be dead and the others done", || {
        // Whoever starts workers starts another one.
        if worker.ended().is_some() {
            worker = stage.worker();
        }
        async { stage.counter(Counter::Done).await == 20 && stage.counter(Counter::Dead).await == 1 }
    })
    .await;
    let record = stage.client.inspector().show(poison.address()).await.unwrap();
    assert_eq!((record.state, record.reason, record.failures), (JobState::Dead, Some(BuryReason::Crashed), 0));
    assert_eq!(stage.times("start")[&1000], 3);
}

/// A process that wakes up after its lease finds its jobs in other hands: its word does not count.
async fn a_worker_that_was_held_beyond_its_lease_can_change_nothing(stage: Stage) {
    let stage = stage.leasing(LONG_LEASE);
    stage.enqueue(0..4, 700).await;
    let zombie = stage.worker();
    until("all four to start", || async { stage.times("start").len() == 4 }).await;
    zombie.signal("-STOP");
    let heir = stage.worker();
    until("the heir to be done", || async { stage.counter(Counter::Done).await == 4 }).await;
    zombie.signal("-CONT");
    // It is alive, and knows that it lost: it serves again under another name.
    assert_eq!(heir.stop().await, Some(0));
    stage.enqueue(10..12, 0).await;
    until("the zombie to work again", || async { stage.counter(Counter::Done).await == 6 }).await;
    let stats = stage.stats().await;
    assert_eq!((stats.total(Counter::Done), stats.jobs()), (6, 0), "{stats:?}");
    assert_eq!(stats.total(Counter::Reclaimed), 4);
}

mod under_a_server_that_fails {
    use super::*;

    queue_tests::on_servers! {
        a_server_that_is_killed_and_restarted_loses_nothing
        a_server_that_stands_still_redelivers_nothing
    }
}

/// `kill -9` of a server that keeps every write, with workers at work: they find it again by
/// themselves.
async fn a_server_that_is_killed_and_restarted_loses_nothing(kind: Kind) {
    const JOBS: u32 = 300;
    let mut stage = Stage::on_a_server(kind).await.leasing(LONG_LEASE);
    stage.enqueue(0..JOBS, 20).await;
    let _workers = [stage.worker(), stage.worker()];
    for round in 1..=3 {
        until("some jobs to be done", || async { stage.counter(Counter::Done).await >= round * 50 }).await;
        let server = stage.server.as_mut().expect("it is on a server");
        server.kill();
        tokio::time::sleep(Duration::from_millis(300)).await; // the outage
        server.restart();
    }
    until("all jobs to be done", || async { stage.counter(Counter::Done).await == u64::from(JOBS) }).await;
    let stats = stage.stats().await;
    assert_eq!(stats.jobs(), 0);
    assert!(stage.times("start").values().all(|times| *times == 1), "an outage within the lease redelivers nothing: {stats:?}");
}

/// `SIGSTOP` for three leases: a broker that stands still makes nobody a suspect.
async fn a_server_that_stands_still_redelivers_nothing(kind: Kind) {
    let stage = Stage::on_a_server(kind).await;
    stage.enqueue(0..60, 300).await;
    let _workers = [stage.worker(), stage.worker()];
    until("some jobs to be done", || async { stage.counter(Counter::Done).await >= 10 }).await;
    let server = stage.server.as_ref().expect("it is on a server");
    server.pause();
    tokio::time::sleep(LEASE * 3).await; // every lease runs out meanwhile
    server.resume();
    until("all jobs to be done", || async { stage.counter(Counter::Done).await == 60 }).await;
    assert!(stage.times("start").values().all(|times| *times == 1), "{:?}", stage.times("start"));
    assert_eq!(stage.stats().await.total(Counter::Reclaimed), 0);
}

/// A broker, a journal, and the worker processes of one test.
struct Stage {
    url: String,
    client: Client,
    server: Option<Server>,
    folder: tempfile::TempDir,
    lease: Duration,
}

impl Stage {
    async fn on_a_file() -> Stage {
        let folder = folder();
        let url = format!("sqlite://{}", folder.path().join("queue.db").display());
        Stage { client: Client::connect(&url).await.unwrap().watched(), url, server: None, folder, lease: LEASE }
    }

    async fn on_a_server(kind: Kind) -> Stage {
        let server = Server::durable(kind);
        let url = server.url();
        let folder = folder();
        Stage { client: Client::connect(&url).await.unwrap().watched(), url, server: Some(server), folder, lease: LEASE }
    }

    /// The same, for workers with another lease.
    fn leasing(self, lease: Duration) -> Stage {
        Stage { lease, ..self }
    }

    async fn enqueue(&self, numbers: std::ops::Range<u32>, ms: u64) {
        self.client.enqueue_all(numbers.map(|number| record::job(number, ms))).await.unwrap();
    }

    fn journal(&self) -> PathBuf {
        self.folder.path().join("journal")
    }

    /// Starts a worker process.
    fn worker(&self) -> Process {
        let mut command = Command::new(env!("CARGO_BIN_EXE_chronicler"));
        command.env("QUEUE_URL", &self.url).env("JOURNAL", self.journal()).env("LEASE_MS", self.lease.as_millis().to_string());
        Process::start(command.env_remove("RUST_LOG"))
    }

    /// How often the journal has this word of each job.
    fn times(&self, word: &str) -> BTreeMap<u32, u32> {
        self.processes(word).into_iter().map(|(number, processes)| (number, u32::try_from(processes.len()).unwrap())).collect()
    }

    /// Which processes wrote this word of each job, in this order.
    fn processes(&self, word: &str) -> BTreeMap<u32, Vec<u32>> {
        let mut processes: BTreeMap<u32, Vec<u32>> = BTreeMap::new();
        for line in std::fs::read_to_string(self.journal()).unwrap_or_default().lines() {
            let words: Vec<&str> = line.split(' ').collect();
            if words[0] == word {
                processes.entry(words[1].parse().unwrap()).or_default().push(words[4].parse().unwrap());
            }
        }
        processes
    }

    async fn stats(&self) -> QueueStats {
        self.client.inspector().stats(QUEUE).await.unwrap()
    }

    /// A counter; zero while the broker is away.
    async fn counter(&self, counter: Counter) -> u64 {
        self.client.inspector().stats(QUEUE).await.map_or(0, |stats| stats.total(counter))
    }
}
