//! The history of a queue: the figures of its workers, per minute for two hours and per hour for
//! two weeks.
//!
//! Workers count in memory and send their figures with a [`Report`] about every ten seconds,
//! separately from jobs. The broker adds them to the minute and the hour in which the report
//! arrives, by its own clock. The figures of a killed worker since its last report are missing.
//!
//! Reports also contain the [patterns](FailurePattern) of failures, of which a queue keeps
//! [`FAILURE_PATTERNS`].
//!
//! Memory is bounded. Each task has a ring buffer of [`MINUTES`] + [`HOURS`] entries, and a queue
//! keeps at most [`TASKS`] tasks. The figures of further tasks are counted under [`OTHERS`].

mod failures;
mod page;
mod tally;
mod times;

use std::{sync::Arc, time::Duration};

pub use self::{
    failures::{
        CRASHED, FAILURE_PATTERNS, FAILURES_SHOWN, FailurePattern, JOBS_NAMED, PATTERNS_REPORTED, RELEASES_NAMED, TASKS_NAMED, recent,
    },
    page::{History, HistoryRow, ReleaseSeen, Sample, StoredHistory},
    tally::{RunCounts, Tally},
    times::{BUCKETS, Times},
};
use super::{OutboxRecord, ProcessId, outbox};
use crate::{
    address::check_queue,
    error::{Error, Result},
};

/// How many minutes are kept.
pub const MINUTES: u64 = 120;

/// How many hours are kept.
pub const HOURS: u64 = 14 * 24;

/// The number of tasks of which a queue keeps a history. A task that had no job for two weeks is
/// replaced by another one.
pub const TASKS: usize = 100;

/// The name under which all jobs are counted whose task has no separate history: jobs that cannot
/// be decoded, jobs of tasks that their worker did not know, jobs of crashed workers, and tasks
/// beyond [`TASKS`]. It is not a valid name of a task.
pub const OTHERS: &str = "*";

/// The name under which the depth of the queue is kept.
pub const SAMPLE: &str = "";

/// The most releases of a queue that are kept: those that were first seen last.
pub const RELEASES_SEEN: usize = 50;

/// The number of hours for which a broker keeps the last report of a process.
pub const REPORTERS_HOURS: u64 = 24;

/// The counts of a worker in a queue since its last report.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct Report {
    /// The queue.
    pub queue: Arc<str>,
    /// The worker.
    pub process: ProcessId,
    /// The number of this report, from 1 on in each queue. A report whose number is not above the
    /// last is a replay and changes nothing.
    pub seq: u64,
    /// The counts by task, at most [`TASKS`] of them, and each task at most once. A report without
    /// tasks still contains the length of the queue.
    pub tasks: Vec<(Arc<str>, Tally)>,
    /// The failures, at most [`PATTERNS_REPORTED`] of them, and each fingerprint at most once.
    /// Their times are not read.
    pub failures: Vec<FailurePattern>,
    /// The report of a relay about an outbox. It replaces the last report about this outbox in the
    /// queue.
    pub outbox: Option<OutboxRecord>,
}

impl Report {
    /// A report in which nothing has happened.
    pub fn new(queue: impl Into<Arc<str>>, process: ProcessId, seq: u64) -> Self {
        Report { queue: queue.into(), process, seq, tasks: Vec::new(), failures: Vec::new(), outbox: None }
    }

    /// Adds counts of the jobs of a task.
    #[must_use]
    pub fn task(mut self, name: impl Into<Arc<str>>, tally: Tally) -> Self {
        self.tasks.push((name.into(), tally));
        self
    }

    /// Adds how runs have failed.
    #[must_use]
    pub fn failure(mut self, failure: FailurePattern) -> Self {
        self.failures.push(failure);
        self
    }

    /// Adds a relay's report about an outbox.
    #[must_use]
    pub fn outbox(mut self, record: OutboxRecord) -> Self {
        self.outbox = Some(record);
        self
    }

    /// For brokers: whether it is one that can be taken.
    ///
    /// # Errors
    /// [`Error::Invalid`] for a queue's name outside the grammar, for more tasks than [`TASKS`],
    /// and for more failures than [`PATTERNS_REPORTED`].
    pub fn check(&self) -> Result<()> {
        check_queue(&self.queue)?;
        for (field, there, most) in [("tasks", self.tasks.len(), TASKS), ("failures", self.failures.len(), PATTERNS_REPORTED)] {
            if there > most {
                return Err(Error::invalid(field, there.to_string(), format!("are more than the {most} of one report")));
            }
        }
        self.outbox.as_ref().map_or(Ok(()), outbox::check)
    }
}

/// The span of a history: a number of minutes or hours, up to now. For
/// [`Inspector::history`](crate::inspect::Inspector::history).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct HistorySpan {
    unit: HistoryUnit,
    rows: u64,
}

/// The period that one row covers.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum HistoryUnit {
    /// A minute.
    Minute,
    /// An hour.
    Hour,
}

impl HistorySpan {
    /// The last hour, by minutes.
    pub const HOUR: HistorySpan = HistorySpan { unit: HistoryUnit::Minute, rows: 60 };
    /// The last two hours, by minutes: all that is kept of minutes.
    pub const TWO_HOURS: HistorySpan = HistorySpan { unit: HistoryUnit::Minute, rows: MINUTES };
    /// The last day, by hours.
    pub const DAY: HistorySpan = HistorySpan { unit: HistoryUnit::Hour, rows: 24 };
    /// The last two weeks, by hours: all that is kept.
    pub const TWO_WEEKS: HistorySpan = HistorySpan { unit: HistoryUnit::Hour, rows: HOURS };

    /// A span of `minutes` minutes. The range is 1 to 120; other numbers are clamped to it.
    pub fn minutes(minutes: u32) -> Self {
        HistorySpan { unit: HistoryUnit::Minute, rows: u64::from(minutes).clamp(1, MINUTES) }
    }

    /// A span of `hours` hours. The range is 1 to 336; other numbers are clamped to it.
    pub fn hours(hours: u32) -> Self {
        HistorySpan { unit: HistoryUnit::Hour, rows: u64::from(hours).clamp(1, HOURS) }
    }

    /// How long a row is: a minute or an hour.
    pub fn step(self) -> Duration {
        Duration::from_millis(self.unit.ms().unsigned_abs())
    }

    /// How many rows it has, with the current one.
    pub fn rows(self) -> u64 {
        self.rows
    }

    /// The period of one row.
    pub fn unit(self) -> HistoryUnit {
        self.unit
    }

    /// The numbers of its periods, for a broker whose clock shows this.
    pub fn periods(self, now_ms: i64) -> std::ops::RangeInclusive<u64> {
        let last = self.unit.period(now_ms);
        last.saturating_sub(self.rows - 1)..=last
    }
}

impl HistoryUnit {
    /// Both.
    pub const ALL: [HistoryUnit; 2] = [HistoryUnit::Minute, HistoryUnit::Hour];

    /// How long it is, in milliseconds.
    pub fn ms(self) -> i64 {
        match self {
            HistoryUnit::Minute => 60_000,
            HistoryUnit::Hour => 3_600_000,
        }
    }

    /// How many are kept.
    pub fn kept(self) -> u64 {
        match self {
            HistoryUnit::Minute => MINUTES,
            HistoryUnit::Hour => HOURS,
        }
    }

    /// The letter for it in storage.
    pub fn letter(self) -> char {
        match self {
            HistoryUnit::Minute => 'm',
            HistoryUnit::Hour => 'h',
        }
    }

    /// The number of the period that contains this time.
    pub fn period(self, now_ms: i64) -> u64 {
        (now_ms / self.ms()).max(0).unsigned_abs()
    }

    /// The place of a period in the circle.
    pub fn place(self, period: u64) -> u64 {
        period % self.kept()
    }
}
