//! The position of jobs: what a broker reports about why a job does not run yet.

use super::{GroupName, Pause, StoredJob, StoredLimitKey};
use crate::address::JobId;

/// Most holders of slots that are named.
pub const HOLDERS_NAMED: usize = 10;

/// Most entries of a list that are examined from either end to count the jobs before one.
pub const PLACES_EXAMINED: u64 = 10_000;

/// The position of a job, read in one transition.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct Diagnosis {
    /// The job, as [`show`](super::Inspect::show) returns it.
    pub job: StoredJob,
    /// The broker's time, in milliseconds since 1970.
    pub now_ms: i64,
    /// Whether its queue is paused.
    pub paused: bool,
    /// The holder of the key of a `held` job. `None` if no job holds it; the job then only waits
    /// for its time.
    pub holder: Option<JobId>,
    /// For an `active` job: the remaining lease of its lane, in milliseconds; negative if it has
    /// expired, even if the lane was fenced and the job is being reclaimed. `None` if the broker
    /// does not know its lane.
    pub lease_left_ms: Option<i64>,
    /// The line of a `ready` job.
    pub line: Option<Line>,
}

impl Diagnosis {
    /// A diagnosis without further data.
    pub fn new(job: StoredJob, now_ms: i64, paused: bool) -> Self {
        Diagnosis { job, now_ms, paused, holder: None, lease_left_ms: None, line: None }
    }
}

/// The position of a ready job in its line: that of its group, or that of jobs without a group.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Line {
    /// The maximum number of jobs of this line that start before it, unless jobs with precedence
    /// arrive. Suspects are in a separate line.
    pub ahead: u64,
    /// How many other groups share the queue with this line. Plain jobs are one group.
    pub groups: u64,
    /// The state of its group, if it has one.
    pub group: Option<GroupLine>,
    /// The limit keys that block the start of the job. Each has the jobs that hold it, and the time
    /// until which its rate blocks jobs of this cost.
    pub limits: Vec<StoredLimitKey>,
}

/// The state of the group of a ready job.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct GroupLine {
    /// The name of the group.
    pub name: GroupName,
    /// Whether it is paused.
    pub paused: bool,
    /// The pause of the group, if it is paused.
    pub pause: Option<Pause>,
    /// Its cap, if it has one.
    pub cap: Option<u32>,
    /// How many of its jobs run.
    pub running: u64,
    /// Some of the running jobs, at most [`HOLDERS_NAMED`], if the group is at its cap.
    pub holders: Vec<JobId>,
    /// For an ordered group: the job that blocks its line, unless it is this one.
    pub blocked_by: Option<JobId>,
}

impl GroupLine {
    /// A group that is allowed everything.
    pub fn new(name: GroupName) -> Self {
        GroupLine { name, paused: false, pause: None, cap: None, running: 0, holders: Vec::new(), blocked_by: None }
    }

    /// Whether the group has as many running jobs as its cap allows.
    pub fn is_full(&self) -> bool {
        self.cap.is_some_and(|cap| self.running >= u64::from(cap))
    }
}
