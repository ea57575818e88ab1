//! The state machine of one queue, in plain memory: what every broker has to do, told once more and as simply as can be.
//!
//! It has no clock, no threads and no chance in it: [`now`](Model::now) is set from outside. Two things are built on it. The
//! property test compares a real broker with it, answer by answer and job by job; where a broker is free to choose (claim
//! numbers, the place in line of an id that was cancelled and came back), the model is told what was [seen](Seen), and checks
//! that it was among what is allowed. And [`MemoryBroker`](crate::memory_broker::MemoryBroker) makes a broker of it, for the
//! simulation under virtual time.
//!
//! `enqueue`, `turn`, `lease`, `people` and `audit` are the transitions, in the order of the two real brokers. They move jobs through the
//! four [`doors`] and in no other way.

mod audit;
pub mod doors;
mod enqueue;
mod history;
mod lease;
mod operation;
mod pauses;
mod people;
mod remarks;
mod scan;
mod schedule;
mod standing;
mod topic;
mod transitions;
mod turn;

use std::{
    collections::{BTreeMap, VecDeque},
    time::Duration,
};

use queue_core::{
    Fingerprint, JobId,
    broker::{
        JobState, LOST_AT, MOST_WATCHED, Operation, PartyName, Pause, PauseOf, ProcessId, Register, Registered, StoredTransition,
        UniqueKey, WATCHED, WorkerAsk,
        history::{FailureKind, HistoryUnit, RELEASES_SEEN, Tally},
    },
};

use self::{
    doors::{Groups, Held, Limits},
    enqueue::Producer,
    lease::Lane,
    schedule::Schedules,
};
pub use self::{
    doors::{Job, JobKey, Jobs, Place, Ready},
    topic::Topic,
};

/// A queue.
#[derive(Clone, Debug, Default)]
pub struct Model {
    /// The broker's clock, in milliseconds since 1970.
    pub now: i64,
    /// Every job that is kept, by id.
    pub jobs: Jobs,
    /// The order of those that wait for a free slot.
    pub ready: Ready,
    /// The groups, and their lines.
    pub groups: Groups,
    /// The limits.
    limits: Limits,
    /// What was counted since the queue exists.
    pub counters: BTreeMap<&'static str, u64>,
    lanes: BTreeMap<PartyName, Lane>,
    /// The records of the workers that have a lane which is not fenced, by the id of their process.
    workers: BTreeMap<String, Vec<u8>>,
    /// What they use, as they have said last.
    loads: BTreeMap<String, Vec<u8>>,
    /// What they were asked last.
    asked: BTreeMap<String, WorkerAsk>,
    producers: BTreeMap<PartyName, Producer>,
    /// Who holds which key.
    keys: BTreeMap<UniqueKey, Held>,
    /// Given ids whose jobs are done: their digest, and when that was.
    remembered: BTreeMap<JobId, (u64, i64)>,
    /// What happened in a minute or an hour, by task and by its place in the circle, with its number.
    history: BTreeMap<(String, HistoryUnit, u64), (u64, Tally)>,
    /// The tasks with a history, the hour in which each was last heard of, and whether its jobs repeat.
    tasks: BTreeMap<String, (u64, bool)>,
    /// The number of the last report of each process.
    reporters: BTreeMap<ProcessId, u64>,
    /// When each release of workers was first seen.
    deployed: BTreeMap<String, i64>,
    /// How runs have failed.
    failures: BTreeMap<Fingerprint, FailureKind>,
    /// What relays have reported of outboxes, by its name, and when.
    outboxes: BTreeMap<String, (i64, Vec<u8>)>,
    registrations: u64,
    claim: u64,
    endings: u64,
    paused: bool,
    /// What is said of the pauses of the queue and its groups.
    pauses: BTreeMap<PauseOf, Pause>,
    /// What people do to all jobs that match.
    operations: Vec<Operation>,
    /// What is said of aging, as it is stored.
    aging: Vec<u8>,
    /// Who has left expired entries, and until when it keeps other sweepers away.
    sweeper: Option<(u64, i64)>,
    announced: Option<i64>,
    /// Jobs for whose end somebody waits, and until when.
    watched: BTreeMap<JobId, i64>,
    watch_told: bool,
    /// Those of them that have ended since the last call of `take_endings`.
    endings_told: Vec<JobId>,
    /// Those of them that were told of since the last call of `take_remarked`.
    remarked: Vec<JobId>,
    schedules: Schedules,
    /// Until when a watcher follows the queue, how many times a mark began to stand, the number of the last transition, and the last of them.
    followed: i64,
    follows_begun: u64,
    transition: u64,
    transitions: VecDeque<StoredTransition>,
}

/// What a broker did where it was free to choose.
#[derive(Clone, Debug)]
pub struct Seen {
    /// The claim number of its deliveries, if it made any.
    pub claim: Option<u64>,
    /// The ids that it delivered, in order.
    pub ids: Vec<JobId>,
}

impl Model {
    /// R1: a name that was never used before.
    pub fn register(&mut self, request: &Register, nonce: u64) -> Registered {
        self.registrations += 1;
        let name = PartyName::new(format!("{}.{nonce:016x}.{}", request.process, self.registrations));
        self.registered(request, name.clone());
        Registered::new(name, self.now).served(self.claim > 0 || !self.lanes.is_empty())
    }

    /// The same, when the broker has chosen the name.
    pub fn registered(&mut self, request: &Register, name: PartyName) {
        match &request.party {
            queue_core::broker::Party::Lane { lease, info, lost } => {
                // With its first lane: since then the worker is registered.
                self.workers.entry(name.process().to_owned()).or_insert_with(|| info.stored(self.now));
                self.deploy(info.release());
                if *lost {
                    self.counters.insert(LOST_AT, self.now.max(0).unsigned_abs());
                }
                self.lanes.insert(name, Lane::new(self.after(*lease), *lease));
            }
            _ => {
                self.producers.insert(name, Producer { seen: self.now, ..Producer::default() });
            }
        }
    }

    fn deploy(&mut self, release: String) {
        if release.is_empty() || self.deployed.contains_key(&release) {
            return;
        }
        if self.deployed.len() >= RELEASES_SEEN {
            let oldest = self.deployed.iter().min_by_key(|(_, at)| **at).map(|(release, _)| release.clone());
            self.deployed.remove(&oldest.expect("there are some"));
        }
        self.deployed.insert(release, self.now);
    }

    /// When the earliest of what was made ready or was put to wait since the last call is due, for those who listen.
    pub fn take_announcement(&mut self) -> Option<i64> {
        self.announced.take()
    }

    /// Marks a job as one for whose end somebody waits, unless it has ended.
    pub fn watch(&mut self, id: &JobId) {
        let has_ended = |job: &Job| matches!(job.place(), Place::Ended { .. } | Place::Dead { .. });
        if self.jobs.get(id).is_some_and(|job| !has_ended(job)) && (self.watched.len() < MOST_WATCHED || self.forget_waiters(100) > 0) {
            let until = self.after(WATCHED);
            self.watched.insert(id.clone(), until);
            self.watch_told = true;
        }
    }

    /// Forgets marks of callers that have gone, at most so many.
    fn forget_waiters(&mut self, items: usize) -> usize {
        let over: Vec<JobId> = self.watched.iter().filter(|(_, until)| **until <= self.now).map(|(id, _)| id.clone()).take(items).collect();
        for id in &over {
            self.watched.remove(id);
        }
        over.len()
    }

    /// Whether a mark was set since the last call, for those who listen.
    pub fn take_watch(&mut self) -> bool {
        std::mem::take(&mut self.watch_told)
    }

    /// The watched jobs that have ended since the last call, for those who listen.
    pub fn take_endings(&mut self) -> Vec<JobId> {
        std::mem::take(&mut self.endings_told)
    }

    fn announce(&mut self, at: i64) {
        self.announced = Some(self.announced.map_or(at, |announced| announced.min(at)));
    }

    fn count(&mut self, name: &'static str, by: usize) {
        if by > 0 {
            *self.counters.entry(name).or_default() += by as u64;
        }
    }

    /// When a job may start that is to wait so long: the clock is cut to whole milliseconds.
    fn due_after(&self, delay: Duration) -> i64 {
        self.after(delay).saturating_add(i64::from(!delay.is_zero()))
    }

    fn after(&self, delay: Duration) -> i64 {
        self.now.saturating_add(i64::try_from(delay.as_nanos().div_ceil(1_000_000)).unwrap_or(i64::MAX))
    }

    /// The ids in a state, in the order in which they are served, are due or have ended.
    pub fn ids(&self, state: JobState) -> Vec<JobId> {
        if state == JobState::Ready {
            return self.ready.page(0).chain(self.groups.page()).cloned().collect();
        }
        let mut found: Vec<_> = self.jobs.iter().filter(|(_, job)| job.place().state() == state).collect();
        found.sort_by_key(|(_, job)| job.place().order());
        found.into_iter().map(|(id, _)| id.clone()).collect()
    }
}
