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

/// A lane whose lease has run out.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Suspect {
    /// The lane.
    pub worker: PartyName,
    /// The deadline that was seen, in broker milliseconds.
    pub deadline_ms: i64,
}

/// Look one of the reclaimer.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Suspects {
    /// Lanes whose deadline is past.
    pub expired: Vec<Suspect>,
    /// How many lanes are fenced and not yet swept to the end.
    pub fenced: usize,
}

impl Suspects {
    /// What was seen.
    pub fn new(expired: Vec<Suspect>, fenced: usize) -> Self {
        Suspects { expired, fenced }
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
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Reclaimed {
    /// Jobs returned to `ready`, uncharged.
    pub released: usize,
    /// Jobs charged with a crash and sent to `retry`.
    pub charged: usize,
    /// Jobs buried as `crashed`.
    pub buried: usize,
    /// Fenced names that were swept to the end and forgotten.
    pub forgotten: usize,
}
