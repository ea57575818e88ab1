//! Leases: how a lane renews its lease, and how the jobs of a lane with an expired lease are
//! reclaimed.

use std::{sync::Arc, time::Duration};

use super::{PartyName, WorkerAsk, WorkerLoad};
use crate::address::JobId;

/// A heartbeat of one lane: renews its lease.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct Extend {
    /// The queue.
    pub queue: Arc<str>,
    /// The lane.
    pub lane: PartyName,
    /// Its last answered turn, 0 before the first.
    pub answered: u64,
    /// The lease ends this long after the broker has handled the heartbeat.
    pub lease: Duration,
    /// The load of its worker. The broker stores it in place of the previous one, until the
    /// worker's last lane in this queue leaves.
    pub load: Option<WorkerLoad>,
    /// The last heartbeat of a lane whose worker stops while it holds unfinished jobs: when the
    /// lease expires, they are not charged with a crash.
    pub leaving: bool,
}

impl Extend {
    /// A heartbeat after which the lease ends `lease` from now.
    pub fn new(queue: impl Into<Arc<str>>, lane: PartyName, answered: u64, lease: Duration) -> Self {
        Extend { queue: queue.into(), lane, answered, lease, load: None, leaving: false }
    }

    /// The same, with the resource usage of its worker. A worker reports it with one of its lanes.
    #[must_use]
    pub fn with_load(mut self, load: WorkerLoad) -> Self {
        self.load = Some(load);
        self
    }

    /// The same of a lane that leaves.
    #[must_use]
    pub fn leaving(mut self) -> Self {
        self.leaving = true;
        self
    }
}

/// The answer to a heartbeat.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Extended {
    /// The lane's jobs that were cancelled, with their claim numbers. This is a hint: each delivery
    /// still needs its ending.
    pub cancelled: Vec<(JobId, u64)>,
    /// The latest request to the worker, for a heartbeat that carries its
    /// [load](Extend::with_load). Every such heartbeat returns it.
    pub asked: Option<WorkerAsk>,
}

impl Extended {
    /// An answer with these cancelled jobs.
    pub fn new(cancelled: Vec<(JobId, u64)>) -> Self {
        Extended { cancelled, asked: None }
    }

    /// The same, with a request to the worker.
    #[must_use]
    pub fn asking(mut self, asked: Option<WorkerAsk>) -> Self {
        self.asked = asked;
        self
    }
}

/// An overdue lane, and its deadline at the first check.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct OverdueLane {
    /// Its name.
    pub name: PartyName,
    /// The deadline at the first check, in broker milliseconds.
    pub deadline_ms: i64,
}

/// A lane whose lease ends later than a lease that is renewed now.
///
/// The broker's clock has been set back since the lane's last request, or another server with a
/// slower clock has taken over. That clock cannot show whether the lane is alive. The lane is dead
/// if its deadline does not change for its `duration` by the reclaimer's own clock.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Ahead {
    /// The lane and its deadline.
    pub lane: OverdueLane,
    /// The length of its lease, as registered.
    pub duration: Duration,
}

/// The overdue lanes of a queue: the reclaimer's first check.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct OverdueLanes {
    /// Lanes whose deadline has passed.
    pub expired: Vec<OverdueLane>,
    /// Lanes whose lease ends later than a lease that is renewed now.
    pub ahead: Vec<Ahead>,
    /// How many lanes are fenced and not yet reclaimed to the end.
    pub fenced: usize,
}

impl OverdueLanes {
    /// Lanes whose deadline has passed, and the number of fenced lanes.
    pub fn new(expired: Vec<OverdueLane>, fenced: usize) -> Self {
        OverdueLanes { expired, ahead: Vec::new(), fenced }
    }

    /// Adds lanes whose lease ends later than a lease that is renewed now.
    #[must_use]
    pub fn ahead(mut self, ahead: Vec<Ahead>) -> Self {
        self.ahead = ahead;
        self
    }
}

/// How the crash of a process is charged to the jobs that it held.
///
/// If the process held suspects, each suspect is charged one crash. If it held none, each of its
/// jobs is charged one crash and becomes a suspect. A job that has run longer than before its last
/// crash is no longer a suspect: it is treated like any other job. In this way the job that crashes
/// its process is found, and the other jobs of the process are not charged again. If the process
/// has another lane with a valid lease, it has not crashed: the broker had lost the lane, and no
/// crash is charged. All lanes of a process should therefore have the same lease and be renewed
/// together. No crash is charged to the jobs of a lane that has reported that it is
/// [leaving](Extend::leaving).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CrashRule {
    /// The number of crashes that buries a job. Default: 3.
    pub max_crashes: u32,
    /// The same of jobs of some tasks, by name, in place of `max_crashes`.
    pub tasks: &'static [(&'static str, u32)],
    /// A crash later than this after the first starts a new count. Default: 72 h.
    pub window: Duration,
    /// How long a charged job waits in `retry`: this time multiplied by its crashes. An uncharged
    /// job goes to the head of `ready`. Default: 1 s.
    pub delay: Duration,
}

impl Default for CrashRule {
    fn default() -> Self {
        CrashRule { max_crashes: 3, tasks: &[], window: Duration::from_secs(72 * 3600), delay: Duration::from_secs(1) }
    }
}

impl CrashRule {
    /// For brokers: the number of crashes that buries a job with this envelope.
    pub fn most_of(&self, envelope: &[u8]) -> u32 {
        let length = envelope.get(1).map_or(0, |length| usize::from(*length));
        let task = envelope.get(2..2 + length).unwrap_or_default();
        self.tasks.iter().find(|(name, _)| name.as_bytes() == task).map_or(self.max_crashes, |(_, most)| *most)
    }
}

/// The result of one step of a reclaim.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Reclaimed {
    /// How many jobs were returned to `ready`, uncharged.
    pub returned: usize,
    /// How many jobs were charged with a crash and moved to `retry`.
    pub charged: usize,
    /// The jobs that were buried as `crashed`.
    pub buried: Vec<JobId>,
    /// How many fenced lanes were reclaimed to the end and forgotten.
    pub forgotten: usize,
}

impl Reclaimed {
    /// How many jobs no longer belong to a fenced lane.
    pub fn moved(&self) -> usize {
        self.returned + self.charged + self.buried.len()
    }
}
