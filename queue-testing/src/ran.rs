//! What ran, and how it ended.

use std::{fmt, time::Duration};

use queue_core::{JobAddress, broker::Ending, inspect::BuryReason};
use queue_worker::__testing::InlineRan;

/// How a run of a job ended, as the broker stored it.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum End {
    /// The job is done.
    Done,
    /// A round of the job is done, and the next one starts after this time.
    Repeated(Duration),
    /// The job failed and is retried.
    Failed {
        /// The messages of the error.
        error: String,
        /// The backoff.
        retry_in: Duration,
    },
    /// The job is dead.
    Dead {
        /// Why.
        reason: BuryReason,
        /// The messages of the error.
        error: String,
    },
    /// The job runs again after this time: it snoozed, or was rate limited.
    Snoozed(Duration),
    /// The handler cancelled the job, for this reason.
    Cancelled(String),
    /// The job did not start in time.
    Expired,
    /// The job waits for a release that knows its task or can read its parameters: why.
    Parked(String),
    /// The job was given back without a run, or was cancelled while it ran.
    Returned,
}

impl End {
    pub(crate) fn of(ending: Ending) -> Self {
        match ending {
            Ending::Ack { .. } => End::Done,
            Ending::Repeat { delay } => End::Repeated(delay),
            Ending::Nack { delay, error } => End::Failed { error, retry_in: delay },
            Ending::Bury { reason, error } => End::Dead { reason, error: error.unwrap_or_default() },
            Ending::Snooze { delay } => End::Snoozed(delay),
            Ending::RateLimited { after, .. } => End::Snoozed(after),
            Ending::Cancel { reason } => End::Cancelled(reason),
            Ending::Expire => End::Expired,
            Ending::Park { task } => End::Parked(format!("no task `{task}` is known")),
            Ending::Unreadable { error, .. } => End::Parked(error),
            _ => End::Returned,
        }
    }
}

impl fmt::Display for End {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            End::Done => write!(f, "done"),
            End::Repeated(delay) => write!(f, "done, repeats after {delay:?}"),
            End::Failed { error, retry_in } => write!(f, "failed, retried in {retry_in:.1?}: {error}"),
            End::Dead { reason, error } => write!(f, "dead ({reason}): {error}"),
            End::Snoozed(delay) => write!(f, "snoozed for {delay:?}"),
            End::Cancelled(reason) => write!(f, "cancelled: {reason}"),
            End::Expired => write!(f, "expired"),
            End::Parked(why) => write!(f, "parked: {why}"),
            End::Returned => write!(f, "returned"),
        }
    }
}

impl std::error::Error for End {}

/// A job that ran.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Ran {
    /// Its address.
    pub address: JobAddress,
    /// The name of its task.
    pub task: String,
    /// Which attempt it was, from 1.
    pub attempt: u32,
    /// How the run ended.
    pub end: End,
}

impl From<InlineRan> for Ran {
    fn from(ran: InlineRan) -> Self {
        Ran { address: ran.address, task: ran.task, attempt: ran.attempt, end: End::of(ran.ending) }
    }
}

impl fmt::Display for Ran {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} ({}, attempt {}): {}", self.task, self.address, self.attempt, self.end)
    }
}

/// What a [drain](crate::TestQueue::drain) ran.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Drained {
    /// Runs that succeeded, also those of jobs that repeat.
    pub done: usize,
    /// Runs that failed and are retried.
    pub failed: usize,
    /// Runs after which the job was dead.
    pub dead: usize,
    /// Runs that ended with a snooze or a rate limit.
    pub snoozed: usize,
    /// Runs that ended in another way: cancelled, expired, parked, returned.
    pub others: usize,
    /// All runs, in the order of their ends.
    pub runs: Vec<Ran>,
}

impl Drained {
    pub(crate) fn add(&mut self, ran: Ran) {
        let count = match ran.end {
            End::Done | End::Repeated(_) => &mut self.done,
            End::Failed { .. } => &mut self.failed,
            End::Dead { .. } => &mut self.dead,
            End::Snoozed(_) => &mut self.snoozed,
            _ => &mut self.others,
        };
        *count += 1;
        self.runs.push(ran);
    }

    /// How many runs there were.
    pub fn total(&self) -> usize {
        self.runs.len()
    }

    /// Checks that each run succeeded, and returns how many there were.
    ///
    /// # Panics
    /// If a run did not succeed: the message shows these runs with their errors.
    #[track_caller]
    pub fn all_done(&self) -> usize {
        let others: Vec<String> =
            self.runs.iter().filter(|ran| !matches!(ran.end, End::Done | End::Repeated(_))).map(|ran| format!("\n    {ran}")).collect();
        assert!(others.is_empty(), "{} of {} runs did not succeed:{}", others.len(), self.total(), others.concat());
        self.total()
    }
}
