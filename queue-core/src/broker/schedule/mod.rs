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

/// The largest difference between the broker's clock and the time of a request. Beyond it the
/// request is refused, because the clock was set or the request has waited.
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

/// The due schedules, as they were handed out.
#[derive(Clone, Debug, Default)]
#[non_exhaustive]
pub struct DueSchedules {
    /// The broker's clock, in milliseconds since 1970.
    pub now_ms: i64,
    /// At most the requested number, and at most about [`MAX_BYTES`](super::MAX_BYTES) of them.
    pub schedules: Vec<StoredSchedule>,
    /// The time until the next other schedule is due. Zero: more schedules are due.
    pub next_due: Option<Duration>,
}

impl DueSchedules {
    /// The due schedules.
    pub fn new(now_ms: i64, schedules: Vec<StoredSchedule>, next_due: Option<Duration>) -> Self {
        DueSchedules { now_ms, schedules, next_due }
    }
}

/// Selects schedules of a queue.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum ScheduleList {
    /// The schedule with this name.
    One(String),
    /// The schedules that code declares; there are few.
    Declared,
    /// All schedules by the time at which they are due, from this offset on.
    All {
        /// 0, or the [`next`](SchedulePage::next) of the page before.
        offset: u64,
        /// The most schedules to list, 1 to 500.
        limit: usize,
    },
    /// The schedules that are due after a time, the earliest first, from this offset on.
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
    /// The schedules. There may be fewer than requested although the list continues.
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
/// A request whose answer was lost may be sent again. If it was carried out, it has changed the
/// state itself, and the answer is [`Stale`](ScheduleAnswer::Stale).
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct SetSchedule {
    /// The queue.
    pub queue: Arc<str>,
    /// The schedule.
    pub name: String,
    /// The broker's clock when the data of this request was read.
    pub asked_ms: i64,
    /// The state that was read. `None`: the schedule did not exist.
    pub expected: Option<Vec<u8>>,
    /// The new stored form. `None`: the schedule is removed.
    pub set: Option<ScheduleSet>,
    /// The jobs that are stored, at most [`TICK_JOBS`].
    pub jobs: Vec<TickJob>,
    /// A job of this schedule that has to be cancelled. If it is active, it stays active until its
    /// ending, or until its lane is fenced. Any ending other than done or dead then cancels it.
    pub stop: Option<JobId>,
}

impl SetSchedule {
    /// For brokers: the number of bytes that it adds.
    pub fn added(&self) -> usize {
        let definition = self.set.as_ref().and_then(|set| set.definition.as_ref()).map_or(0, Vec::len);
        definition + self.jobs.iter().map(|tick| tick.job.envelope.len()).sum::<usize>()
    }

    /// A request without jobs, which removes the schedule unless `set` is filled.
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

/// The stored form of a schedule.
#[derive(Clone, Debug)]
pub struct ScheduleSet {
    /// The encoded definition. `None`: it is not changed.
    pub definition: Option<Vec<u8>>,
    /// The encoded state.
    pub state: Vec<u8>,
    /// The time of the next check, in broker milliseconds. `None`: no check until the schedule is
    /// changed.
    pub due_ms: Option<i64>,
    /// Whether code declares it.
    pub declared: bool,
}

/// A job of a schedule.
#[derive(Clone, Debug)]
pub struct TickJob {
    /// The job. Its id is that of a [tick](JobId::of_tick).
    pub job: NewJob,
    /// Its number among the runs of the schedule.
    pub run: u64,
    /// Whether its id is remembered for [`BACKFILL_REMEMBERED`], so that no second job with it is
    /// stored meanwhile.
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
