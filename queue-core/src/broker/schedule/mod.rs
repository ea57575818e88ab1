//! The stored form of schedules: a definition and a state, which the broker does not interpret, and
//! the time of the next check.
//!
//! Every change of a schedule is one request, [`SetSchedule`]: a compare-and-set on the whole
//! state, together with the jobs that it creates. A worker reads the [due
//! schedules](super::Broker::due_schedules), decides, and writes. If another worker has written
//! first, the state has changed, and nothing is written. The broker itself only records how the
//! jobs of a schedule end: [`ScheduleState::ended`].

mod definition;
mod state;

use std::{sync::Arc, time::Duration};

use super::NewJob;
use crate::{
    address::{JobId, check_name, check_queue},
    error::{Error, Result},
};
pub use definition::{Declaration, ScheduleBody, ScheduleDefinition};
pub use state::{ScheduleEvent, ScheduleRun, ScheduleState};

/// A request whose time was asked for longer ago than this, or is further ahead, by the broker's
/// clock, is refused: its clock was set, or the request has waited.
pub const CLOCK_MOVED: Duration = Duration::from_secs(5);

/// A schedule that was handed out is handed out again after this time if it has not changed since:
/// its worker has crashed.
pub const HANDED_OUT: Duration = Duration::from_secs(1);

/// How long the jobs of a backfill or a manual run are remembered, so that each of them is created
/// once.
pub const BACKFILL_REMEMBERED: Duration = Duration::from_secs(24 * 3600);

/// Why the job of the last tick is cancelled, in its record.
pub const STOPPED: &str = "the next tick of its schedule cancels it";

/// Most jobs of one request.
pub const TICK_JOBS: usize = 100;

/// A schedule as stored.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct StoredSchedule {
    /// Its name, unique in its queue.
    pub name: String,
    /// The encoded [`ScheduleDefinition`].
    pub definition: Vec<u8>,
    /// The encoded [`ScheduleState`].
    pub state: Vec<u8>,
}

impl StoredSchedule {
    /// A schedule as stored.
    pub fn new(name: impl Into<String>, definition: Vec<u8>, state: Vec<u8>) -> Self {
        StoredSchedule { name: name.into(), definition, state }
    }
}

/// The schedules that are due, as they were handed out.
#[derive(Clone, Debug, Default)]
#[non_exhaustive]
pub struct DueSchedules {
    /// The broker's clock, in milliseconds since 1970.
    pub now_ms: i64,
    /// At most as many as were asked for, and at most about [`MAX_BYTES`](super::MAX_BYTES) of
    /// them.
    pub schedules: Vec<StoredSchedule>,
    /// How long until the next one is due, these not counted. Zero: there are more.
    pub next_due: Option<Duration>,
}

impl DueSchedules {
    /// What is due now.
    pub fn new(now_ms: i64, schedules: Vec<StoredSchedule>, next_due: Option<Duration>) -> Self {
        DueSchedules { now_ms, schedules, next_due }
    }
}

/// Which schedules of a queue are listed.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum ScheduleList {
    /// The one of this name.
    One(String),
    /// Those that code declares; there are few.
    Declared,
    /// All, by the time at which they are due, from this offset on.
    All {
        /// 0, or the [`next`](SchedulePage::next) of the page before.
        offset: u64,
        /// The most schedules to list, 1 to 500.
        limit: usize,
    },
    /// Those that are due after a time, the first due first, and no other; from this offset on.
    After {
        /// The time, in broker milliseconds.
        after_ms: i64,
        /// 0, or the [`next`](SchedulePage::next) of the page before.
        offset: u64,
        /// The most schedules to list, 1 to 500.
        limit: usize,
    },
}

/// Schedules of a queue.
#[derive(Clone, Debug, Default)]
#[non_exhaustive]
pub struct SchedulePage {
    /// The broker's clock, in milliseconds since 1970.
    pub now_ms: i64,
    /// The schedules. There may be fewer than asked for although the listing continues.
    pub schedules: Vec<StoredSchedule>,
    /// The offset of the next page.
    pub next: Option<u64>,
}

impl SchedulePage {
    /// A page.
    pub fn new(now_ms: i64, schedules: Vec<StoredSchedule>, next: Option<u64>) -> Self {
        SchedulePage { now_ms, schedules, next }
    }
}

/// Changes a schedule, in one transition: its definition, its state, and the jobs that it makes.
///
/// A request whose answer was lost may be sent again: its state has changed by itself then, and it
/// is [`Stale`](ScheduleAnswer::Stale).
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct SetSchedule {
    /// The queue.
    pub queue: Arc<str>,
    /// The schedule.
    pub name: String,
    /// The broker's clock when it was asked for what this request is made of.
    pub asked_ms: i64,
    /// The state that was read. `None`: there is no such schedule.
    pub expected: Option<Vec<u8>>,
    /// What is stored instead. `None`: the schedule is removed.
    pub set: Option<ScheduleSet>,
    /// The jobs that are stored, at most [`TICK_JOBS`].
    pub jobs: Vec<TickJob>,
    /// A job of this schedule that is to be cancelled. If it runs, it stays active until its
    /// ending, or until its lane is fenced. Any ending other than done or dead then cancels it.
    pub stop: Option<JobId>,
}

impl SetSchedule {
    /// For brokers: bytes that it adds.
    pub fn added(&self) -> usize {
        let definition = self.set.as_ref().and_then(|set| set.definition.as_ref()).map_or(0, Vec::len);
        definition + self.jobs.iter().map(|tick| tick.job.envelope.len()).sum::<usize>()
    }

    /// A request that changes nothing yet but what is stored.
    pub fn new(queue: impl Into<Arc<str>>, name: impl Into<String>, asked_ms: i64, expected: Option<Vec<u8>>) -> Self {
        SetSchedule { queue: queue.into(), name: name.into(), asked_ms, expected, set: None, jobs: Vec::new(), stop: None }
    }

    /// For brokers: whether it is one that can be taken.
    ///
    /// # Errors
    /// [`Error::Invalid`] for names outside the grammar, and for more jobs than [`TICK_JOBS`].
    pub fn check(&self) -> Result<()> {
        check_queue(&self.queue)?;
        check_name("schedule", &self.name)?;
        match self.jobs.len() {
            0..=TICK_JOBS => Ok(()),
            more => Err(Error::invalid("jobs", more.to_string(), format!("are more than the {TICK_JOBS} of one request"))),
        }
    }

    /// For brokers: whether the clock has moved since the time that it carries.
    pub fn has_moved(&self, now_ms: i64) -> bool {
        now_ms.abs_diff(self.asked_ms) > u64::try_from(CLOCK_MOVED.as_millis()).unwrap_or(u64::MAX)
    }
}

/// What is stored of a schedule.
#[derive(Clone, Debug)]
pub struct ScheduleSet {
    /// The encoded definition. `None`: as it is.
    pub definition: Option<Vec<u8>>,
    /// The encoded state.
    pub state: Vec<u8>,
    /// The time of the next check, in broker milliseconds. `None`: not until it is changed.
    pub due_ms: Option<i64>,
    /// Whether code declares it.
    pub declared: bool,
}

/// A job of a schedule.
#[derive(Clone, Debug)]
pub struct TickJob {
    /// The job. Its id is one of [ticks](JobId::of_tick).
    pub job: NewJob,
    /// Its number among the runs of the schedule.
    pub run: u64,
    /// Whether its id is remembered for [`BACKFILL_REMEMBERED`], and no second job of it stored
    /// meanwhile.
    pub remembered: bool,
}

/// The outcome of a [`SetSchedule`].
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum ScheduleAnswer {
    /// It was set. Which of the jobs were stored; the others exist, or are remembered.
    Set(Vec<bool>),
    /// The schedule has been changed in the meantime. Nothing was written.
    Stale,
    /// The broker's clock has [moved](CLOCK_MOVED). Nothing was written.
    Moved,
}
