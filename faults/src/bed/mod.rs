//! One run: a broker, processes around it, connections between them, and injected faults.
//!
//! A run begins with [`Bed::start`], a row injects faults, and it always ends in the same way:
//! [`Bed::finish`] heals everything, waits until the work has drained, takes the final state, and
//! checks the histories.

mod broker;
mod child;
mod disk;
mod finish;
mod launch;
mod operations;
mod power;
mod schedules;
mod setup;
pub(crate) mod snapshot;
mod topics;
mod watching;

use std::{
    collections::{BTreeMap, BTreeSet},
    ops::Range,
    path::{Path, PathBuf},
    time::{Duration, Instant},
};

use fastrand::Rng;
use queue_conformance::{
    folder::{folder, on_disk},
    patience::{patience, wait},
};
use queue_core::{
    Client,
    broker::{Condition, Counter, JobState},
    inspect::{Aging, GroupOrder, LimitRule, Rate, RuleOf},
};
use queue_tests::proxy::Harm;
use tempfile::TempDir;

pub use self::{
    broker::Column,
    child::{Operator, Worker},
    disk::Disk,
    finish::Ended,
    schedules::Wanted,
    setup::Setup,
    watching::Watcher,
};
use self::{
    broker::{Line, Place},
    child::Producer,
    power::Recording,
    schedules::Defined,
};
use crate::{
    checker::Resources,
    history::{self, Operation, Phase, Recorder},
    process::{ALL, LIMIT, Mix, Producing},
    rows::missed,
    work::QUEUE,
};

/// Why a run could not be made. It does not concern promises.
pub type Problem = Box<dyn std::error::Error + Send + Sync>;

/// A run in progress.
#[derive(Debug)]
pub struct Bed {
    /// The seeded source of all random choices of a row.
    pub rng: Rng,
    /// The workers, in the order in which they were started. Some may have ended.
    pub workers: Vec<Worker>,
    /// A client without injected faults, also on its way to the broker.
    pub client: Client,
    setup: Setup,
    program: PathBuf,
    producers: Vec<Producer>,
    recorder: Recorder,
    base: Resources,
    started: usize,
    /// The number of times that the driver has enqueued jobs.
    added: u64,
    figures: BTreeMap<&'static str, f64>,
    schedules: Vec<Defined>,
    /// The recorded file operations of processes, and the file after a power cut.
    recording: Option<Recording>,
    restored: Option<PathBuf>,
    place: Place,
    folder: TempDir,
}

/// The histories of more jobs do not fit into memory.
const MANY: u64 = 100_000;

impl Bed {
    /// Starts a broker and the processes.
    ///
    /// # Errors
    /// If a part of it is not available here.
    pub async fn start(column: Column, setup: Setup, seed: u64, program: &Path) -> Result<Bed, Problem> {
        let folder = if setup.jobs > MANY { on_disk() } else { folder() };
        let recorder = Recorder::open(&folder.path().join("driver.jsonl"), "driver")?;
        let place = Place::start(column, &setup, folder.path())?;
        let client = Client::connect(&place.url()).await?;
        let recording = if setup.recorded { Some(place.record()?) } else { None };
        let mut bed = Bed {
            rng: Rng::with_seed(seed),
            workers: Vec::new(),
            client,
            program: program.to_owned(),
            producers: Vec::new(),
            recorder,
            base: Resources::default(),
            started: 0,
            added: 0,
            figures: BTreeMap::new(),
            schedules: Vec::new(),
            recording,
            restored: None,
            place,
            folder,
            setup,
        };
        if let Some((_, cap)) = bed.setup.terms.groups {
            let cap = u32::try_from(cap).ok();
            let inspector = bed.client.inspector();
            if bed.setup.mix.limited {
                inspector.set_limit(QUEUE, LIMIT, |rule| rule.concurrency = cap).await?;
                // A limit that is never full, so that all jobs have two slots.
                let rate = bed.setup.terms.rate;
                let per_second = rate.map(|rate| Rate::new(rate.per_second, Duration::from_secs(1))).transpose()?;
                let all = |rule: &mut LimitRule| {
                    (rule.concurrency, rule.rate, rule.burst) = (Some(1_000), per_second, rate.map(|rate| rate.burst));
                };
                inspector.set_limit(QUEUE, ALL, all).await?;
            } else {
                inspector.set_group_rule(QUEUE, &RuleOf::Others, |rule| rule.cap = cap).await?;
            }
        }
        if bed.setup.terms.ordered.iter().any(|(queue, _)| queue == QUEUE) {
            bed.client.inspector().set_group_rule(QUEUE, &RuleOf::Others, |rule| rule.order = Some(GroupOrder::Ordered)).await?;
        }
        if let Some(aging_ms) = bed.setup.terms.aging_ms {
            bed.client.inspector().set_aging(QUEUE, Aging::Every(Duration::from_millis(aging_ms))).await?;
        }
        for _ in 0..bed.setup.workers {
            bed.start_worker()?;
        }
        bed.until("every worker to be at work", async |bed| bed.workers.iter().all(Worker::has_spoken)).await?;
        for n in 0..bed.setup.producers {
            bed.start_producer(n)?;
        }
        bed.base = bed.resources();
        Ok(bed)
    }

    /// The broker of this run.
    pub fn column(&self) -> Column {
        self.place.column()
    }

    /// The setup of this run.
    pub fn setup(&self) -> &Setup {
        &self.setup
    }

    /// The lease of the workers.
    pub fn lease(&self) -> Duration {
        Duration::from_millis(self.setup.terms.lease_ms)
    }

    /// A time between these two, in milliseconds.
    pub fn ms(&mut self, from: u64, to: u64) -> Duration {
        Duration::from_millis(self.rng.u64(from..=to))
    }

    /// One of the live workers.
    pub fn any_worker(&mut self) -> usize {
        let living: Vec<usize> = (0..self.workers.len()).filter(|n| self.workers[*n].is_alive()).collect();
        living[self.rng.usize(..living.len())]
    }

    /// The server, if there is one.
    ///
    /// # Errors
    /// On SQLite.
    pub fn server(&mut self) -> Result<&mut queue_tests::server::Server, Problem> {
        self.place.server().ok_or_else(|| "this row needs a server".into())
    }

    /// Changes a setting of the server.
    ///
    /// # Errors
    /// On SQLite, or if the server refuses.
    pub fn set(&mut self, name: &str, value: &str) -> Result<(), Problem> {
        Ok(self.server()?.ask_patiently(&["CONFIG", "SET", name, value], patience())?)
    }

    /// Promotes the replica as a careful operator would, without a loss.
    ///
    /// # Errors
    /// Without sentinels and without a cluster, here and below.
    pub fn hand_over(&mut self) -> Result<(), Problem> {
        self.harm("hand over", "broker");
        tokio::task::block_in_place(|| self.place.hand_over())
    }

    /// Sets the error of the clock of the server, or of the master, from now on, in whole seconds.
    ///
    /// # Errors
    /// On SQLite and a cluster.
    pub fn move_clock(&mut self, by: i64) -> Result<(), Problem> {
        self.harm("move clock", "broker");
        tokio::task::block_in_place(|| self.place.move_clock(by * 1_000))
    }

    /// From now on, the replica of the master does not receive writes.
    ///
    /// # Errors
    /// As above.
    pub fn cut_off_replicas(&mut self) -> Result<(), Problem> {
        self.harm("cut off", "replica");
        tokio::task::block_in_place(|| self.place.cut_off_replicas())
    }

    /// Kills the master.
    ///
    /// # Errors
    /// As above.
    pub fn kill_master(&mut self) -> Result<(), Problem> {
        self.harm("kill", "broker");
        tokio::task::block_in_place(|| self.place.kill_master())
    }

    /// Waits until the replica of a killed master was promoted.
    ///
    /// # Errors
    /// As above, or when no master was killed.
    pub fn wait_for_promotion(&mut self) -> Result<(), Problem> {
        tokio::task::block_in_place(|| self.place.wait_for_promotion())
    }

    /// Waits until another failover is possible.
    ///
    /// # Errors
    /// Without sentinels and without a cluster.
    pub fn settled(&mut self) -> Result<(), Problem> {
        tokio::task::block_in_place(|| self.place.settled())
    }

    /// Suspends or resumes all sentinels.
    ///
    /// # Errors
    /// Without sentinels.
    pub fn pause_sentinels(&mut self, pause: bool) -> Result<(), Problem> {
        self.harm(if pause { "stop" } else { "resume" }, "sentinels");
        self.place.pause_sentinels(pause)
    }

    /// Moves the slot of the queue to another master, key by key.
    ///
    /// # Errors
    /// Without a cluster, or when a node refuses.
    pub fn move_slot(&mut self) -> Result<(), Problem> {
        self.harm("move slot", "broker");
        tokio::task::block_in_place(|| self.place.move_slot())
    }

    /// Restarts killed servers in the middle of a run.
    ///
    /// # Errors
    /// If they do not start.
    pub fn bring_back(&mut self) -> Result<(), Problem> {
        tokio::task::block_in_place(|| self.place.heal())
    }

    /// The disk of the SQLite file.
    ///
    /// # Errors
    /// If it has no separate disk.
    pub fn disk(&self) -> Result<&Disk, Problem> {
        self.place.disk().ok_or_else(|| "this row needs a disk of its own".into())
    }

    /// The database file.
    ///
    /// # Errors
    /// If there is none.
    pub fn file(&self) -> Result<PathBuf, Problem> {
        self.place.file().map(Path::to_owned).ok_or_else(|| "this row needs a file".into())
    }

    /// Waits until the broker reports this condition. Workers, `/health`, `status` and `doctor`
    /// also receive it.
    ///
    /// # Errors
    /// If it does not in time.
    pub async fn until_told(&mut self, what: &str, holds: fn(&Condition) -> bool) -> Result<(), Problem> {
        let told = async |bed: &mut Bed| bed.client.inspector().condition().await.is_ok_and(|condition| holds(&condition));
        self.until(what, told).await
    }

    /// Records an injected fault: to a process by its name, to the broker, or to a connection.
    pub fn harm(&self, name: &str, target: &str) {
        self.recorder.note(Phase::Ok, Operation::Fault { name: name.to_owned(), target: target.to_owned() });
    }

    /// The recorder for the driver's own entries.
    pub fn recorder(&self) -> &Recorder {
        &self.recorder
    }

    /// Stores a measurement of a row, for the report.
    pub fn measured(&mut self, what: &'static str, time: Duration) {
        self.figures.insert(what, time.as_secs_f64() * 1000.0);
    }

    /// Injects a fault into the connections of all producers.
    pub fn harm_producers(&mut self, harm: Harm) {
        self.harm(&format!("{harm:?}"), "producers");
        self.producers.iter().for_each(|producer| producer.line.set(harm));
    }

    /// Injects a fault into the connection of one worker.
    pub fn harm_line(&mut self, worker: usize, harm: Harm) {
        let worker = &self.workers[worker];
        self.harm(&format!("{harm:?}"), worker.name());
        worker.line.set(harm);
    }

    /// Checks that a reply was swallowed or truncated on any connection.
    ///
    /// # Errors
    /// If no fault has hit a reply.
    pub fn has_hit_replies(&self) -> Result<(), Problem> {
        let lines = self.producers.iter().map(|producer| &producer.line).chain(self.workers.iter().map(|worker| &worker.line));
        let harmed: usize = lines.map(Line::harmed).sum();
        if harmed > 0 { Ok(()) } else { Err(missed("no reply was swallowed or cut off").into()) }
    }

    /// Ends the faults of all connections.
    pub fn clear_lines(&mut self) {
        let lines = self.producers.iter().map(|producer| &producer.line).chain(self.workers.iter().map(|worker| &worker.line));
        lines.for_each(|line| line.set(Harm::None));
    }

    /// Kills a worker (`kill -9`).
    pub fn kill(&mut self, worker: usize) {
        self.harm("kill", self.workers[worker].name());
        self.workers[worker].kill();
        self.note_down(worker);
    }

    /// Suspends a worker (`SIGSTOP`).
    pub fn stop(&mut self, worker: usize) {
        self.harm("stop", self.workers[worker].name());
        self.workers[worker].signal("-STOP");
    }

    /// Resumes a worker.
    pub fn go_on(&mut self, worker: usize) {
        self.workers[worker].signal("-CONT");
    }

    /// Stops a worker (SIGTERM), and returns its exit code.
    ///
    /// # Errors
    /// If it does not end in time.
    pub async fn end(&mut self, worker: usize) -> Result<Option<i32>, Problem> {
        let broker = self.client.broker().clone();
        let code = self.workers[worker].terminate(&broker).await?;
        self.note_down(worker);
        Ok(code)
    }

    /// Waits until this number of jobs is done, or no jobs are left to be enqueued. Workers that
    /// end are restarted.
    ///
    /// # Errors
    /// If that takes too long.
    pub async fn progress(&mut self, done: u64) -> Result<(), Problem> {
        self.until("jobs to be done", async |bed| {
            bed.counter(Counter::Done).await >= done || bed.producers.iter_mut().all(Producer::has_ended)
        })
        .await
    }

    /// Waits, and restarts workers that end in the meantime.
    ///
    /// # Errors
    /// If one cannot be started.
    pub async fn pass(&mut self, time: Duration) -> Result<(), Problem> {
        let end = Instant::now() + time;
        while Instant::now() < end {
            self.tend()?;
            tokio::time::sleep(Duration::from_millis(10).min(end.saturating_duration_since(Instant::now()))).await;
        }
        Ok(())
    }

    /// Waits for an event.
    ///
    /// # Errors
    /// The verdict if it times out, here and below.
    pub async fn until(&mut self, what: &str, holds: impl AsyncFnMut(&mut Bed) -> bool) -> Result<(), Problem> {
        self.until_within(what, patience(), holds).await
    }

    /// Waits this long for an event.
    ///
    /// # Errors
    /// As above.
    pub async fn until_within(&mut self, what: &str, time: Duration, mut holds: impl AsyncFnMut(&mut Bed) -> bool) -> Result<(), Problem> {
        let broker = self.client.broker().clone();
        let wait = wait(what).within(time).every(Duration::from_millis(10)).on(&broker);
        let ended = wait.try_some(async || match holds(self).await {
            true => Some(Ok(())),
            false => self.tend().err().map(Err),
        });
        ended.await?
    }

    /// Sets the number of jobs of each key that run at once. While the broker is unreachable,
    /// nothing changes.
    pub async fn cap(&mut self, cap: usize) {
        self.harm("change a limit", "broker");
        self.recorder.note(Phase::Invoke, Operation::Cap { cap });
        let most = u32::try_from(cap).ok();
        if self.client.inspector().set_limit(QUEUE, LIMIT, |rule| rule.concurrency = most).await.is_ok() {
            self.recorder.note(Phase::Ok, Operation::Cap { cap });
        }
    }

    /// Whether every producer has ended.
    pub(super) fn has_published(&mut self) -> bool {
        self.producers.iter_mut().all(Producer::has_ended)
    }

    /// Enqueues more jobs in addition to those of the producers, and returns the range of their
    /// numbers.
    pub async fn enqueue(&mut self, jobs: u64, mix: Mix) -> Range<u64> {
        self.added += 1;
        let first_key = (self.setup.producers + self.added) << 40;
        let (client, recorder, seed) = (self.client.clone(), self.recorder.clone(), self.rng.u64(..));
        Producing { client, recorder, first_key, pause: Duration::ZERO, seed, mix }.run(jobs).await;
        first_key..first_key + (1 << 40)
    }

    /// The number of these jobs that have started.
    ///
    /// # Errors
    /// When a history cannot be read, here and below.
    pub fn started(&self, keys: &Range<u64>) -> Result<usize, Problem> {
        let records = history::read(self.folder.path())?;
        let started = records.iter().filter_map(|record| match &record.operation {
            Operation::Start { key, .. } if keys.contains(key) => Some(key),
            _ => None,
        });
        Ok(started.collect::<BTreeSet<_>>().len())
    }

    /// The number of lease renewals of workers, with turns and with heartbeats. Each claim renews a
    /// lease as well.
    pub fn renewals(&self) -> Result<usize, Problem> {
        let records = history::read(self.folder.path())?;
        Ok(records.iter().filter(|record| matches!(record.operation, Operation::Renew { .. })).count())
    }

    /// A counter of the queue; zero while the broker is unreachable.
    pub async fn counter(&self, counter: Counter) -> u64 {
        self.client.inspector().stats(QUEUE).await.map_or(0, |stats| stats.total(counter))
    }

    /// The number of jobs in a state; zero while the broker is unreachable.
    pub async fn depth(&self, state: JobState) -> u64 {
        self.client.inspector().stats(QUEUE).await.map_or(0, |stats| stats.count(state))
    }

    fn resources(&mut self) -> Resources {
        let mut resources = self.place.resources();
        // The approximate number of one worker, because the number of workers differs.
        resources.connections /= self.workers.iter().filter(|worker| worker.is_alive()).count().max(1) as u64;
        resources.descriptors = self.workers.iter().filter(|worker| worker.is_alive()).map(Worker::descriptors).max().unwrap_or(0);
        resources
    }
}
