//! The position of jobs: what a broker reports about why a job does not run yet.

use super::{GroupName, Pause, StoredJob, StoredLimitKey};
use crate::address::JobId;

/// Most holders of slots that are named.
pub const HOLDERS_NAMED: usize = 10;

/// Most places of a list that are looked through from either end, to say how many jobs stand before one.
pub const PLACES_LOOKED_AT: u64 = 10_000;

/// Where a job stands, read in one transition.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct Standing {
    /// The job, as [`show`](super::Inspect::show) gives it.
    pub job: StoredJob,
    /// The broker's time, in milliseconds since 1970.
    pub now_ms: i64,
    /// Whether its queue is paused.
    pub paused: bool,
    /// Of a job that is `held`: who holds its key. `None`: nobody does, and the job waits for its time alone.
    pub holder: Option<JobId>,
    /// Of a job that is `active`: how long the lease of its lane still stands, in milliseconds, below zero if it is over. `None`: the lane was fenced,
    /// and the job is being taken back.
    pub lease_left_ms: Option<i64>,
    /// Of a job that is `ready`.
    pub line: Option<Line>,
}

impl Standing {
    /// Of this job nothing else is known.
    pub fn new(job: StoredJob, now_ms: i64, paused: bool) -> Self {
        Standing { job, now_ms, paused, holder: None, lease_left_ms: None, line: None }
    }
}

/// Where a ready job stands in its line: that of its group, or that of plain jobs.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Line {
    /// At most so many jobs of this line start before it, unless others come that go first. Suspects are a line of their own.
    pub ahead: u64,
    /// How many other groups take turns with this line. Plain jobs are one group.
    pub groups: u64,
    /// What its group is allowed, if it has one.
    pub group: Option<GroupLine>,
    /// The keys of its limits that let it not start now: of each who holds it, and until when its rate lets no job of this cost start.
    pub limits: Vec<StoredLimitKey>,
}

/// What the group of a ready job is allowed.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct GroupLine {
    /// Which group.
    pub name: GroupName,
    /// Whether it is paused.
    pub paused: bool,
    /// By whom, since when, why and until when, if it is.
    pub pause: Option<Pause>,
    /// Its cap, if it has one.
    pub cap: Option<u32>,
    /// How many of its jobs run.
    pub running: u64,
    /// Some of these, at most [`HOLDERS_NAMED`], if the group is at its cap.
    pub holders: Vec<JobId>,
    /// Of an ordered group: the job that holds its line, unless it is this one.
    pub held_by: Option<JobId>,
}

impl GroupLine {
    /// A group that is allowed everything.
    pub fn new(name: GroupName) -> Self {
        GroupLine { name, paused: false, pause: None, cap: None, running: 0, holders: Vec::new(), held_by: None }
    }

    /// Whether as many of its jobs run as may.
    pub fn is_full(&self) -> bool {
        self.cap.is_some_and(|cap| self.running >= u64::from(cap))
    }
}
