//! The final state of a broker, and the guarantees of a run.

use std::collections::BTreeMap;

/// The contents of a broker when all work has ended.
#[derive(Clone, Debug, Default)]
pub struct Snapshot {
    /// When it was taken, in milliseconds since 1970 by the broker's clock.
    pub at_ms: i64,
    /// Every job, once for each state in which it is listed.
    pub jobs: Vec<Held>,
    /// The registered lanes.
    pub lanes: Vec<Lane>,
    /// The unique keys that are held.
    pub keys: Vec<HeldKey>,
    /// The schedules, with their expected ticks.
    pub schedules: Vec<HeldSchedule>,
    /// The subscriptions.
    pub subscriptions: Vec<HeldSubscription>,
    /// The ids of the events in the log of the topic, in their order.
    pub log: Vec<String>,
    /// The slots that groups hold.
    pub slots: u64,
    /// The counters of the queues, added up.
    pub counters: BTreeMap<String, u64>,
    /// The time from the end of all faults until no work was left. `None` if that did not happen.
    pub drained_ms: Option<u64>,
    /// Producers that had not ended in time.
    pub unended: usize,
    /// The used resources before the run.
    pub base: Resources,
    /// The used resources after the run.
    pub end: Resources,
}

/// A listed job.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Held {
    /// Its id.
    pub id: String,
    /// The state under which it is listed.
    pub state: String,
    /// The state in its record.
    pub shown: String,
    /// Its task, if its envelope can be read.
    pub task: Option<String>,
    /// Its number, if its payload can be read.
    pub key: Option<u64>,
    /// The digest of its payload, if there is one.
    pub digest: Option<u64>,
    /// The number of failures.
    pub attempts: u32,
    /// The number of crashes.
    pub crashes: u32,
    /// The reason of its death.
    pub reason: Option<String>,
    /// The claim number in its kept result.
    pub result: Option<u64>,
    /// The lane that holds it.
    pub lane: Option<String>,
    /// Its log.
    pub told: Vec<Told>,
    /// The claim that has reported its progress.
    pub progress: Option<u64>,
}

/// A line of a log in the format of the suite's handlers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Told {
    /// The claim of the run.
    pub claim: u64,
    /// The number of the line, from 0.
    pub line: u32,
    /// The number of lines of the run.
    pub of: u32,
}

/// A held unique key.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct HeldKey {
    /// The number of the key.
    pub unique: u64,
    /// The job that holds it.
    pub id: String,
}

/// A schedule that no longer ticks.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct HeldSchedule {
    /// Its name.
    pub name: String,
    /// Its expected ticks.
    pub ticks: Ticks,
    /// The number of ticks that it has made, by its own count.
    pub made: u64,
    /// The number of ticks that it has skipped, by its own count.
    pub skipped: u64,
}

/// The expected ticks of a schedule, in milliseconds since 1970.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Ticks {
    /// One at each multiple of the period. Each was made, or was skipped and counted.
    Every {
        /// The period.
        period_ms: i64,
        /// The first of them.
        first_ms: i64,
        /// The next one.
        next_ms: i64,
    },
    /// Exactly these ticks were made.
    Made(Vec<i64>),
}

/// A subscription.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct HeldSubscription {
    /// Its queue.
    pub queue: String,
    /// The number of events that were removed before it read them, by its own count.
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

/// The used resources of a run.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Resources {
    /// Keys of the broker without those of jobs, or rows.
    pub keys: u64,
    /// Connections to the broker, of each worker.
    pub connections: u64,
    /// The maximum number of open files of a worker.
    pub descriptors: u64,
    /// Bytes of write-ahead log.
    pub log_bytes: u64,
}

/// The guarantees of a run.
#[derive(Clone, Debug)]
pub struct Terms {
    /// The lease of every worker.
    pub lease_ms: u64,
    /// The number of crashes that buries a job.
    pub max_crashes: u32,
    /// The minimum and maximum of the backoff, which doubles.
    pub backoff_ms: (u64, u64),
    /// The maximum delay of a start without faults.
    pub late_ms: Option<u64>,
    /// Whether there is one worker with one slot and one producer, so that the order is fixed.
    pub fifo: bool,
    /// Whether leases must always be renewed in time: no process is suspended, and the broker is
    /// reachable.
    pub renewals: bool,
    /// The time after the end of all faults in which every worker must work again.
    pub resume_ms: u64,
    /// The time after the end of all faults in which all work must be done.
    pub drain_ms: u64,
    /// Whether the settings of the broker allow the loss of acknowledged data.
    pub volatile: bool,
    /// Whether the broker's clock is moved. Then it does not show which of two claims came first.
    pub clock_moves: bool,
    /// The number of groups, and the cap of each.
    pub groups: Option<(u64, usize)>,
    /// Whether these are served in rotation. Groups are, and keys of a limit are not.
    pub turns: bool,
    /// The aging interval.
    pub aging_ms: Option<u64>,
    /// The queues whose jobs run in order within their groups, with the number of groups.
    pub ordered: Vec<(String, u64)>,
    /// The rate of all jobs.
    pub rate: Option<RateTerms>,
    /// The allowed increase of each resource.
    pub slack: Resources,
}

/// A rate for all jobs, and the reported usage of each run. The start is charged with one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RateTerms {
    /// The rate.
    pub per_second: u32,
    /// The burst.
    pub burst: u32,
    /// The usage of a run, at least 1.
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
            // A queue gets a key of a kind with its first job that ends, is reported or fails.
            // There are about twenty kinds. A key for each job would be hundreds.
            slack: Resources { keys: 24, connections: 4, descriptors: 16, log_bytes: 16 << 20 },
        }
    }
}

impl Terms {
    /// The shortest backoff after this failure, counted from 1: half of the nominal backoff.
    pub(super) fn shortest_backoff_ms(&self, failure: u32) -> u64 {
        let (base, max) = self.backoff_ms;
        base.checked_shl(failure.saturating_sub(1)).filter(|delay| delay >> failure.saturating_sub(1) == base).map_or(max, |d| d.min(max))
            / 2
    }
}
