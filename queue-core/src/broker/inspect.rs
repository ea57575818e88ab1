//! A job, as operators see it, and its states.

use std::{fmt, str::FromStr};

use super::{BuryReason, GroupName, LimitKey, Priority, UniqueKey, failed_releases, stored_release};
use crate::{
    address::{JobId, serde_as_text},
    error::{Error, Result},
    text::cut,
};

#[doc = include_str!("../docs/states.md")]
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
#[non_exhaustive]
pub enum JobState {
    /// Waits for its time: it was enqueued with a delay, or has snoozed or repeated.
    Scheduled,
    /// Waits for a free slot.
    Ready,
    /// Held by a worker under a lease.
    Active,
    /// Failed, and waits for its backoff.
    Retry,
    /// Waits for a worker that has its task, for a release that can read it, or until its paused
    /// task is resumed.
    Parked,
    /// Waits until the job that holds its key has ended.
    Held,
    /// Completed; kept only if the job has a retention.
    Done,
    /// Failed permanently; kept with reason, error history and payload.
    Dead,
    /// Cancelled by an operator or by its handler; kept for 24 hours.
    Cancelled,
    /// Its time to start had passed; kept for 24 hours.
    Expired,
}

impl JobState {
    /// All, in the order in which they are printed.
    pub const ALL: [JobState; 10] = [
        JobState::Scheduled,
        JobState::Ready,
        JobState::Active,
        JobState::Retry,
        JobState::Parked,
        JobState::Held,
        JobState::Done,
        JobState::Dead,
        JobState::Cancelled,
        JobState::Expired,
    ];

    /// The word for it everywhere.
    pub fn name(self) -> &'static str {
        match self {
            JobState::Scheduled => "scheduled",
            JobState::Ready => "ready",
            JobState::Active => "active",
            JobState::Retry => "retry",
            JobState::Parked => "parked",
            JobState::Held => "held",
            JobState::Done => "done",
            JobState::Dead => "dead",
            JobState::Cancelled => "cancelled",
            JobState::Expired => "expired",
        }
    }

    /// True if the job does not change any more, unless an operator changes it.
    pub fn is_final(self) -> bool {
        matches!(self, JobState::Done | JobState::Dead | JobState::Cancelled | JobState::Expired)
    }
}

impl fmt::Display for JobState {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

impl FromStr for JobState {
    type Err = Error;

    fn from_str(text: &str) -> Result<Self> {
        JobState::ALL.into_iter().find(|state| state.name() == text).ok_or_else(|| {
            let known: Vec<_> = JobState::ALL.iter().map(|state| state.name()).collect();
            Error::invalid("state", text, format!("is unknown; use one of {}", known.join(", ")))
        })
    }
}

serde_as_text!(JobState);

/// How long cancelled and expired jobs are kept.
pub const ENDED_KEEP: std::time::Duration = std::time::Duration::from_secs(24 * 3600);

/// One failure in a job's history.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Failure {
    /// When, in broker milliseconds since 1970.
    pub at_ms: i64,
    /// The error's message.
    pub message: String,
}

/// Most failures kept of a job; the oldest go first.
pub const FAILURES_KEPT: usize = 10;

/// Most bytes of an error's message in a listing.
pub const LISTED_ERROR: usize = 512;

/// All stored data of one job. Operators get the decoded [`JobRecord`](crate::inspect::JobRecord).
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct StoredJob {
    /// Its id.
    pub id: JobId,
    /// Its state.
    pub state: JobState,
    /// The stored envelope.
    pub envelope: Vec<u8>,
    /// Its priority.
    pub priority: Priority,
    /// How often its handler has failed.
    pub attempts: u32,
    /// How many crashes it was charged with.
    pub crashes: u32,
    /// How often it has snoozed.
    pub snoozes: u32,
    /// How often a service that it calls has rate-limited it.
    pub rate_limited: u32,
    /// How often a run was stopped because its worker stopped: the job was returned, and not
    /// charged.
    pub returns: u32,
    /// When it was last returned so, in broker milliseconds since 1970.
    pub returned_ms: Option<i64>,
    /// When it is due (`scheduled`, `retry`, and `held`, which may be later) or has ended (final
    /// states), in broker milliseconds since 1970.
    pub at_ms: Option<i64>,
    /// When it rises by one priority, while it is `ready` in a queue with aging and may rise, in
    /// broker milliseconds since 1970.
    pub rises_ms: Option<i64>,
    /// Its receipt while `active`: the lane and the claim number.
    pub receipt: Option<String>,
    /// Its last failures, oldest first.
    pub failures: Vec<Failure>,
    /// Why it is dead.
    pub reason: Option<BuryReason>,
    /// Its encoded result, when `done` and kept.
    pub result: Option<Vec<u8>>,
    /// Why it was cancelled.
    pub note: Option<String>,
    /// The key with which it was enqueued, whether it holds it or not.
    pub unique: Option<UniqueKey>,
    /// Its group, if it has one.
    pub group: Option<GroupName>,
    /// The keys of the limits that it is subject to.
    pub limits: Vec<LimitKey>,
    /// The releases that could not read it, while it is `parked` for that reason.
    pub unreadable: Option<Unreadable>,
}

/// The releases that could not read a parked job.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Unreadable {
    /// The releases, sorted.
    pub releases: Vec<String>,
    /// When it is buried, in broker milliseconds since 1970; 0 if unknown.
    pub until_ms: i64,
}

impl StoredJob {
    /// A job with clean counters.
    pub fn new(id: JobId, state: JobState, envelope: Vec<u8>) -> Self {
        StoredJob {
            id,
            state,
            envelope,
            priority: Priority::Normal,
            attempts: 0,
            crashes: 0,
            snoozes: 0,
            rate_limited: 0,
            returns: 0,
            returned_ms: None,
            at_ms: None,
            rises_ms: None,
            receipt: None,
            failures: Vec::new(),
            reason: None,
            result: None,
            note: None,
            unreadable: None,
            unique: None,
            group: None,
            limits: Vec::new(),
        }
    }

    /// The form in lists: without its result, and only with its last failure, whose message is cut
    /// at [`LISTED_ERROR`].
    pub fn listed(mut self) -> Self {
        self.result = None;
        let last = self.failures.pop();
        self.failures = last.into_iter().collect();
        for failure in &mut self.failures {
            failure.message = cut(std::mem::take(&mut failure.message), LISTED_ERROR);
        }
        self
    }
}

impl Unreadable {
    /// Reads the data of a job that is parked under this name; `None` if no release has failed on
    /// it.
    pub(crate) fn of(name: &str) -> Option<Self> {
        let releases: Vec<String> = failed_releases(name).map(str::to_owned).collect();
        (!releases.is_empty()).then_some(Unreadable { releases, until_ms: 0 })
    }

    /// One more release has failed on the job.
    #[cfg_attr(not(feature = "sqlite"), allow(dead_code, reason = "on Redis scripts do it"))]
    pub(crate) fn add(&mut self, release: &str) {
        let release = stored_release(release);
        if let Err(at) = self.releases.binary_search(&release) {
            self.releases.insert(at, release);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_state_is_read_as_it_is_printed() {
        for state in JobState::ALL {
            assert_eq!(state.to_string().parse::<JobState>().unwrap(), state);
            assert_eq!(serde_json::to_value(state).unwrap(), state.name());
            assert_eq!(serde_json::from_value::<JobState>(state.name().into()).unwrap(), state);
        }
        assert!(serde_json::from_str::<JobState>("\"asleep\"").unwrap_err().to_string().contains("scheduled"));
    }
}
