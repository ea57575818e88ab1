//! The final state of a broker, and what was agreed on for a run.

use std::collections::BTreeMap;

/// What a broker holds when everything has come to rest.
#[derive(Clone, Debug, Default)]
pub struct Snapshot {
    /// When it was taken, in milliseconds since 1970 by the broker's clock.
    pub at_ms: i64,
    /// Every job, once per state in which it is listed.
    pub jobs: Vec<Held>,
    /// The registered lanes.
    pub lanes: Vec<Lane>,
    /// The unique keys that are held.
    pub keys: Vec<HeldKey>,
    /// The schedules, and what their ticks should have been.
    pub schedules: Vec<HeldSchedule>,
    /// The subscriptions.
    pub subscriptions: Vec<HeldSubscription>,
    /// The ids of the events in the log of the topic, in their order.
    pub log: Vec<String>,
    /// The slots that groups hold.
    pub slots: u64,
    /// The counters of the queues, added up.
    pub counters: BTreeMap<String, u64>,
    /// How long it took from the end of all harm until nothing was left to do; `None`: it did not
    /// come to an end.
    pub drained_ms: Option<u64>,
    /// Producers that had not ended when the time for that was over.
    pub unended: usize,
    /// What was in use before the run.
    pub base: Resources,
    /// What is in use after it.
    pub end: Resources,
}

/// A job as it is listed.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Held {
    /// Its id.
    pub id: String,
    /// The state under which it is listed.
    pub state: String,
    /// The state that its own record names.
    pub shown: String,
    /// Its task, if its envelope can be read.
    pub task: Option<String>,
    /// Its number, if its payload can be read.
    pub key: Option<u64>,
    /// The digest of its payload, if there is one.
    pub digest: Option<u64>,
    /// Failures.
    pub attempts: u32,
    /// Crashes.
    pub crashes: u32,
    /// Why it is dead.
    pub reason: Option<String>,
    /// The claim number that its kept result names.
    pub result: Option<u64>,
    /// The lane that holds it.
    pub lane: Option<String>,
    /// Its log.
    pub told: Vec<Told>,
    /// The claim that has told its progress.
    pub progress: Option<u64>,
}

/// A line of a log, as handlers of the suite tell it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Told {
    /// The claim of the run.
    pub claim: u64,
    /// The number of the line, from 0.
    pub line: u32,
    /// How many lines the run tells.
    pub of: u32,
}

/// A unique key that is held.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct HeldKey {
    /// The number of the key.
    pub unique: u64,
    /// The job that holds it.
    pub id: String,
}

/// A schedule that does not tick any more.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct HeldSchedule {
    /// Its name.
    pub name: String,
    /// Which ticks there were.
    pub ticks: Ticks,
    /// How many it has made, by its own account.
    pub made: u64,
    /// How many it has skipped, by its own account.
    pub skipped: u64,
}

/// Which ticks of a schedule there were, in milliseconds since 1970.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Ticks {
    /// One at each multiple of so many milliseconds. Each was made, or skipped and counted.
    Every {
        /// The period.
        period_ms: i64,
        /// The first of them.
        first_ms: i64,
        /// The one that would come next.
        next_ms: i64,
    },
    /// These were made, and no other.
    Made(Vec<i64>),
}

/// A subscription.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct HeldSubscription {
    /// Its queue.
    pub queue: String,
    /// How many events were gone before it read them, by its own account.
    pub lost: u64,
}

/// A registered lane.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Lane {
    /// Its name.
    pub name: String,
    /// The end of its lease.
    pub deadline_ms: i64,
}

/// What a run uses.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Resources {
    /// Keys of the broker beyond those of jobs, or rows.
    pub keys: u64,
    /// Connections to the broker, of each worker.
    pub connections: u64,
    /// Open files of the worker that has most.
    pub descriptors: u64,
    /// Bytes of write-ahead log.
    pub log_bytes: u64,
}

/// What was agreed on for a run.
#[derive(Clone, Debug)]
pub struct Terms {
    /// The lease of every worker.
    pub lease_ms: u64,
    /// The crash that buries a job.
    pub max_crashes: u32,
    /// The backoff: from this to that, doubling.
    pub backoff_ms: (u64, u64),
    /// Without faults, how late a job may start.
    pub late_ms: Option<u64>,
    /// Whether there is one worker of one slot and one producer, so that order is kept.
    pub fifo: bool,
    /// Whether leases must be renewed in time throughout: nobody is stopped, and the broker is in
    /// reach.
    pub renewals: bool,
    /// How soon after the end of all harm every worker must be at work.
    pub resume_ms: u64,
    /// How soon after it everything must be done.
    pub drain_ms: u64,
    /// Whether the broker may lose what it acknowledged, by its settings.
    pub volatile: bool,
    /// Whether the broker's clock is put forward or back: then it does not tell which of two claims
    /// came first.
    pub clock_moves: bool,
    /// How many groups the jobs are of, and how many of each may run at once.
    pub groups: Option<(u64, usize)>,
    /// Whether these take turns, as groups do; keys of a limit do not.
    pub turns: bool,
    /// How long a job waits until it rises by one priority.
    pub aging_ms: Option<u64>,
    /// The queues whose jobs run in order within their groups, and how many groups there are.
    pub ordered: Vec<(String, u64)>,
    /// The rate of all jobs.
    pub rate: Option<RateTerms>,
    /// How much more of each resource may be in use afterwards.
    pub slack: Resources,
}

/// A rate that holds for all jobs, and what each run says that it has used of it. It is charged one
/// when it starts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RateTerms {
    /// The rate.
    pub per_second: u32,
    /// How many may start at once.
    pub burst: u32,
    /// What a run says, at least 1.
    pub used: u32,
}

impl Default for Terms {
    fn default() -> Self {
        Terms {
            lease_ms: 30_000,
            max_crashes: 3,
            backoff_ms: (2_000, 24 * 3_600_000),
            late_ms: None,
            fifo: false,
            renewals: false,
            // Two call deadlines and two seconds.
            resume_ms: 12_000,
            drain_ms: 60_000,
            volatile: false,
            clock_moves: false,
            groups: None,
            turns: true,
            aging_ms: None,
            ordered: Vec::new(),
            rate: None,
            // A queue gets a key of a kind with its first job that ends, is reported or fails: some
            // twenty kinds. A key for each job would be hundreds.
            slack: Resources { keys: 24, connections: 4, descriptors: 16, log_bytes: 16 << 20 },
        }
    }
}

impl Terms {
    /// The shortest backoff after this failure, counted from 1: half of the nominal one.
    pub(super) fn shortest_backoff_ms(&self, failure: u32) -> u64 {
        let (base, max) = self.backoff_ms;
        base.checked_shl(failure.saturating_sub(1)).filter(|delay| delay >> failure.saturating_sub(1) == base).map_or(max, |d| d.min(max))
            / 2
    }
}
