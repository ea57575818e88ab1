//! Leases: how a lane keeps its own, and what becomes of the jobs of one that has not.

use std::{sync::Arc, time::Duration};

use super::PartyName;
use crate::address::JobId;

/// Asks for more time for one lane.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct Extend {
    /// The queue.
    pub queue: Arc<str>,
    /// The lane.
    pub worker: PartyName,
    /// Its last answered turn, 0 before the first.
    pub answered: u64,
    /// From now on the lease ends so long after this call.
    pub lease: Duration,
}

impl Extend {
    /// Asks for `lease` more from now.
    pub fn new(queue: impl Into<Arc<str>>, worker: PartyName, answered: u64, lease: Duration) -> Self {
        Extend { queue: queue.into(), worker, answered, lease }
    }
}

/// What a beat brought.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Extended {
    /// Jobs that were cancelled under this lane, with the claim number they had: a hint, each still wants its answer.
    pub cancelled: Vec<(JobId, u64)>,
}

impl Extended {
    /// A beat that brought these cancels.
    pub fn new(cancelled: Vec<(JobId, u64)>) -> Self {
        Extended { cancelled }
    }
}

/// A lane that may be dead, and the deadline by which it was found.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Suspect {
    /// The lane.
    pub worker: PartyName,
    /// The deadline that was seen, in broker milliseconds.
    pub deadline_ms: i64,
}

/// A lane whose deadline lies further ahead than its lease is long.
///
/// The broker's clock has been put back since that lane was last heard of, or another server with a slower clock has taken over. By
/// that clock nobody can tell whether the lane lives. It is dead if its deadline does not move for its `term` by the observer's
/// own clock.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Ahead {
    /// The lane and its deadline.
    pub suspect: Suspect,
    /// How long its lease is: what it was registered with.
    pub term: Duration,
}

/// Look one of the reclaimer.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Suspects {
    /// Lanes whose deadline is past.
    pub expired: Vec<Suspect>,
    /// Lanes whose deadline lies further ahead than their lease is long.
    pub ahead: Vec<Ahead>,
    /// How many lanes are fenced and not yet swept to the end.
    pub fenced: usize,
}

impl Suspects {
    /// Lanes whose deadline is past, and how many are fenced.
    pub fn new(expired: Vec<Suspect>, fenced: usize) -> Self {
        Suspects { expired, ahead: Vec::new(), fenced }
    }

    /// Lanes whose deadline lies further ahead than their lease is long.
    #[must_use]
    pub fn ahead(mut self, ahead: Vec<Ahead>) -> Self {
        self.ahead = ahead;
        self
    }
}

/// What a lost process costs the jobs that it held.
///
/// It charges one crash to every job it held that already is a suspect, or, if it held none, to all of them, which become
/// suspects. So the job that kills its process is found, and its neighbours are not punished. A process with another lane whose
/// lease stands is not lost: the broker had forgotten the lane, and nothing is charged. (All lanes of a process should therefore
/// have one lease, and be renewed together.)
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CrashRule {
    /// The crash that buries a job. Default: 3.
    pub max_crashes: u32,
    /// Crashes further apart than this start a new count. Default: 72 h.
    pub window: Duration,
    /// How long a charged job waits in `retry`, times the crashes charged. An uncharged one goes to the head of `ready`.
    /// Default: 1 s.
    pub delay: Duration,
}

impl Default for CrashRule {
    fn default() -> Self {
        CrashRule { max_crashes: 3, window: Duration::from_secs(72 * 3600), delay: Duration::from_secs(1) }
    }
}

/// What a sweep of fenced lanes did.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Reclaimed {
    /// Jobs returned to `ready`, uncharged.
    pub released: usize,
    /// Jobs charged with a crash and sent to `retry`.
    pub charged: usize,
    /// Jobs buried as `crashed`: these.
    pub buried: Vec<JobId>,
    /// Fenced names that were swept to the end and forgotten.
    pub forgotten: usize,
}

impl Reclaimed {
    /// How many jobs no longer belong to a fenced lane.
    pub fn moved(&self) -> usize {
        self.released + self.charged + self.buried.len()
    }
}
