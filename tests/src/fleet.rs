//! Producers and workers of a queue in separate processes, which continue while its servers fail.

use std::{
    path::{Path, PathBuf},
    process::Command,
    time::{Duration, SystemTime},
};

use queue_conformance::{folder::folder, patience};
use queue_core::Client;
use tempfile::TempDir;

use crate::{history::History, process::Process};

/// The lease of a fleet's workers: the jobs of a crashed worker are reclaimed within a quarter of a
/// minute.
const LEASE: Duration = Duration::from_secs(3);

/// The difference between the first job numbers of two producers.
const JOBS: u32 = 1_000_000;

const PRODUCERS: u32 = 2;

/// Work continues within this time after a promotion, even on a busy machine. `docs/deployment.md`
/// has the usual times.
const RESUMED: Duration = Duration::from_secs(5);

/// Asserts that the time between a promotion and the first job after it was not too long.
///
/// # Panics
/// If it was too long, with the verdict of a slow wait.
pub fn resumed(what: &str, after: Duration) {
    assert!(after < RESUMED, "verdict: SLOW: {what}: the work to go on within {RESUMED:?} of the promotion; it took {after:?}");
}

/// Two producers and two workers.
#[derive(Debug)]
pub struct Fleet {
    program: PathBuf,
    url: String,
    queues: Vec<String>,
    /// The number of replicas that must have a job before it counts as stored.
    replicas: Option<u32>,
    producers: Vec<Process>,
    workers: Vec<Process>,
    folder: TempDir,
}

impl Fleet {
    /// Starts the fleet, and waits until its jobs run. The program is `chronicler`.
    ///
    /// # Panics
    /// If no job runs in time.
    pub async fn start(program: impl AsRef<Path>, url: &str, queues: &[&str]) -> Fleet {
        Fleet::with(program.as_ref(), url, queues, None).await
    }

    /// The same with producers that require this number of replicas.
    ///
    /// # Panics
    /// If no job runs in time.
    pub async fn careful(program: impl AsRef<Path>, url: &str, queues: &[&str], replicas: u32) -> Fleet {
        Fleet::with(program.as_ref(), url, queues, Some(replicas)).await
    }

    async fn with(program: &Path, url: &str, queues: &[&str], replicas: Option<u32>) -> Fleet {
        let folder = folder();
        let queues = queues.iter().map(|queue| (*queue).to_owned()).collect();
        let (program, url) = (program.to_owned(), url.to_owned());
        let mut fleet = Fleet { program, url, queues, replicas, producers: Vec::new(), workers: Vec::new(), folder };
        for number in 0..PRODUCERS {
            fleet.add_worker();
            let mut producer = fleet.command();
            producer.arg("enqueue").env("FIRST", (number * JOBS).to_string());
            fleet.producers.push(Process::start(&mut producer));
        }
        fleet.flows().await;
        fleet
    }

    /// Starts another worker.
    pub fn add_worker(&mut self) {
        let worker = Process::start(&mut self.command());
        self.workers.push(worker);
    }

    /// Suspends the workers.
    pub fn pause_workers(&self) {
        self.workers.iter().for_each(|worker| worker.signal("-STOP"));
    }

    /// Resumes the workers.
    pub fn resume_workers(&self) {
        self.workers.iter().for_each(|worker| worker.signal("-CONT"));
    }

    /// Waits until all processes work: in each queue, a new job of each producer has ended, and
    /// each worker has started a job.
    ///
    /// # Panics
    /// If that takes too long.
    /// When that takes too long.
    pub async fn flows(&self) {
        let now = SystemTime::now();
        let n_queues = u32::try_from(self.queues.len()).expect("there are a few");
        let flows = |history: &History| {
            let produces = |producer| history.of(|number| number / JOBS == producer).flows_since(now);
            (0..PRODUCERS).all(produces) && self.workers.iter().all(|worker| history.works_since(worker.id(), now))
        };
        let everywhere = async || {
            let history = self.history();
            (0..n_queues).all(|queue| flows(&history.of(|number| number % n_queues == queue)))
        };
        self.wait_for("everyone to take part", everywhere).await;
    }

    /// Waits until the journal meets this condition.
    ///
    /// # Panics
    /// If that takes too long.
    pub async fn until(&self, what: &str, has: impl Fn(&History) -> bool) {
        self.wait_for(what, async || has(&self.history())).await;
    }

    /// The journal up to now.
    pub fn history(&self) -> History {
        History::read(&self.journal())
    }

    /// Stops the producers, waits until the queues are empty, and stops the workers, which must
    /// exit without an error.
    ///
    /// # Panics
    /// If the queues do not become empty, or a process ends in another way.
    pub async fn finish(mut self) -> History {
        for producer in std::mem::take(&mut self.producers) {
            assert_eq!(producer.stop().await, Some(0), "a producer ends when it is told to");
        }
        let client = Client::connect(&self.url).await.expect("the URL of a fleet");
        let inspector = client.inspector();
        self.wait_for("the queues to be empty", async || {
            for queue in &self.queues {
                let stats = inspector.stats(queue).await;
                if !stats.is_ok_and(|stats| stats.jobs() == 0) {
                    return false;
                }
            }
            true
        })
        .await;
        for worker in std::mem::take(&mut self.workers) {
            assert_eq!(worker.stop().await, Some(0), "a worker ends when it is told to, with nothing left");
        }
        self.history()
    }

    async fn wait_for(&self, what: &str, done: impl AsyncFn() -> bool) {
        let wait = patience::wait(what).times(2).every(Duration::from_millis(50)).seeing(|| self.history().summary());
        wait.some(async || done().await.then_some(())).await;
    }

    fn journal(&self) -> PathBuf {
        self.folder.path().join("journal")
    }

    fn command(&self) -> Command {
        let mut command = Command::new(&self.program);
        let variables = [("QUEUE_URL", self.url.clone()), ("LEASE_MS", LEASE.as_millis().to_string()), ("QUEUES", self.queues.join(","))];
        command.envs(variables).env("JOURNAL", self.journal());
        if let Some(replicas) = self.replicas {
            command.env("REPLICAS", replicas.to_string());
        }
        command.env_remove("RUST_LOG");
        command
    }
}
