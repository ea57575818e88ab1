//! The builder of a schedule, and its validation.

use std::{
    sync::Arc,
    time::{Duration, SystemTime, UNIX_EPOCH},
};

use queue_calendar::{CatchUp, LONGEST_JITTER, Overlap};

use super::rules::ReadRules;
use crate::{
    address::check_name,
    broker::{LONGEST, ScheduleBody},
    client::{Client, Job, RawJob},
    draft::EnqueueStack,
    envelope::Envelope,
    error::{Error, Result},
    task::{ScheduleDef, Task, TaskDef},
};

/// A schedule, which creates a job at each of its ticks.
///
/// ```
/// use queue_core::{prelude::*, schedule::{CatchUp, Overlap, Schedule}};
///
/// #[task(queue = "reports")]
/// async fn report(customer: u64) {}
///
/// # async fn example() -> queue_core::Result<()> {
/// let client = Client::connect("sqlite://:memory:").await?;
/// let nightly = Schedule::cron("nightly", "0 3 * * MON-FRI").overlap(Overlap::BufferOne).catch_up(CatchUp::Skip).job(report::job(7));
/// client.schedules().upsert(nightly).await?;
///
/// let listed = client.schedules().list("reports").await?;
/// assert_eq!(listed.len(), 1);
/// # Ok(()) }
/// # tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap().block_on(example()).unwrap();
/// ```
///
/// The setters do not check their values. `upsert` and the start of a worker report a value outside
/// its range.
#[derive(Clone, Debug)]
#[must_use = "a schedule is given to a worker, or to `client.schedules().upsert(..)`"]
pub struct Schedule {
    name: String,
    expression: String,
    zone: String,
    job: Option<Result<RawJob, Arc<Error>>>,
    overlap: Overlap,
    catch_up: CatchUp,
    window: Option<Duration>,
    jitter: Duration,
    start: Option<SystemTime>,
    end: Option<SystemTime>,
    most: Option<u64>,
    pause_after: u32,
}

impl Schedule {
    /// A schedule of this name, which is unique in the queue of its job. `expression` has five
    /// fields (minute, hour, day, month, weekday), or six with the second before them, or is
    /// `@hourly` and the like, or `@every 90s`. Names (`MON`, `JAN`), `L`, `W` and `#` are
    /// supported.
    pub fn cron(name: impl Into<String>, expression: impl Into<String>) -> Self {
        Schedule {
            name: name.into(),
            expression: expression.into(),
            zone: "UTC".to_owned(),
            job: None,
            overlap: Overlap::default(),
            catch_up: CatchUp::default(),
            window: None,
            jitter: Duration::ZERO,
            start: None,
            end: None,
            most: None,
            pause_after: 0,
        }
    }

    /// A schedule that ticks at multiples of an interval since 1970, independent of time zones.
    /// Range: 1 s to ten years, in whole milliseconds.
    pub fn every(name: impl Into<String>, interval: Duration) -> Self {
        Schedule::cron(name, format!("@every {}", humantime::format_duration(interval)))
    }

    /// The time zone of the expression, by its IANA name. Default: `UTC`.
    pub fn tz(mut self, zone: impl Into<String>) -> Self {
        self.zone = zone.into();
        self
    }

    /// The job that each tick creates, with its queue, priority, timeout, retention, expiry and
    /// headers. Required. A middleware of the client sees it once, when the schedule is stored, and
    /// not at each tick.
    pub fn job<T: Task>(mut self, job: Job<T>) -> Self {
        self.job = Some(job.into_raw().map_err(Arc::new));
        self
    }

    /// The same with a job of a task that is known only by its name.
    pub fn raw_job(mut self, job: RawJob) -> Self {
        self.job = Some(Ok(job));
        self
    }

    /// The policy for a tick while the job of the last one has not ended. Default:
    /// [`Overlap::Allow`].
    pub fn overlap(mut self, overlap: Overlap) -> Self {
        self.overlap = overlap;
        self
    }

    /// The policy for missed ticks: those without a job 10 s after their time. Default:
    /// [`CatchUp::Last`].
    pub fn catch_up(mut self, catch_up: CatchUp) -> Self {
        self.catch_up = catch_up;
        self
    }

    /// Missed ticks older than this are skipped. Default: no bound.
    pub fn catch_up_window(mut self, window: Duration) -> Self {
        self.window = Some(window);
        self
    }

    /// Delays each tick by up to this time; the delay of a tick is always the same. Range: 0 to 24
    /// h. Default: 0.
    pub fn jitter(mut self, jitter: Duration) -> Self {
        self.jitter = jitter;
        self
    }

    /// The first tick is not before this time. Default: no bound.
    pub fn start(mut self, start: SystemTime) -> Self {
        self.start = Some(start);
        self
    }

    /// The last tick is not after this time. Default: no bound.
    pub fn end(mut self, end: SystemTime) -> Self {
        self.end = Some(end);
        self
    }

    /// Stops after `ticks` ticks. Range: 1 or more. Default: no bound.
    pub fn max_ticks(mut self, ticks: u64) -> Self {
        self.most = Some(ticks);
        self
    }

    /// Pauses the schedule after this number of dead letters in a row. Default: 0, never.
    pub fn pause_after_dead(mut self, jobs: u32) -> Self {
        self.pause_after = jobs;
        self
    }

    /// A schedule that a task declares.
    ///
    /// # Errors
    /// For values that the macro has rejected already.
    #[doc(hidden)]
    pub fn of_task(task: &'static TaskDef, schedule: &ScheduleDef) -> Result<Self> {
        let policy = |error: queue_calendar::SyntaxError| Error::invalid("schedule", schedule.name, error.problem);
        Ok(Schedule {
            job: Some((schedule.payload)().map(|payload| RawJob::of_task(task, payload)).map_err(Arc::new)),
            zone: schedule.tz.to_owned(),
            overlap: Overlap::parse(schedule.overlap).map_err(policy)?,
            catch_up: CatchUp::parse(schedule.catch_up).map_err(policy)?,
            window: schedule.window,
            jitter: schedule.jitter,
            pause_after: schedule.pause_after_dead,
            ..Schedule::cron(schedule.name, schedule.expression)
        })
    }

    /// Its name.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Checks everything, and encodes it for storage.
    pub(crate) fn prepare(self, on_enqueue: &EnqueueStack) -> Result<Prepared> {
        check_name("schedule", &self.name)?;
        let missing = || Error::invalid("schedule", &self.name, "has no job; set one with `.job(task::job(..))`");
        let job = self.job.clone().ok_or_else(missing)?.map_err(|error| error.duplicate())?;
        let now_ms = on_enqueue.clock().now_ms();
        let (queue, job, limits) = job.template(on_enqueue)?;
        let mut envelope = Envelope::decode(&job.envelope)?;
        let expires_ms = envelope.expires_ms.take().map(|at| u64::try_from(at - now_ms).unwrap_or(0));
        let body = ScheduleBody {
            envelope: envelope.encode()?,
            priority: job.priority.number(),
            group: job.group.as_ref().map(ToString::to_string),
            limits: job.limits.iter().flat_map(|limits| limits.keys()).map(ToString::to_string).collect(),
            cost: job.limits.as_ref().map(|limits| limits.cost).filter(|cost| *cost != 1),
            expires_ms,
            overlap: self.overlap.name().to_owned(),
            catch_up: self.catch_up.to_string(),
            window_ms: bounded("catch_up_window", self.window, LONGEST)?,
            jitter_ms: bounded("jitter", Some(self.jitter), LONGEST_JITTER)?.unwrap_or(0),
            start_ms: self.start.map(ms),
            end_ms: self.end.map(ms),
            most: self.most,
            pause_after: u64::from(self.pause_after),
            expression: self.expression,
            zone: self.zone,
        };
        if let CatchUp::All(n) = self.catch_up {
            CatchUp::parse(&CatchUp::All(n).to_string()).map_err(|error| Error::invalid("catch_up", format!("all({n})"), error.problem))?;
        }
        if body.most == Some(0) {
            return Err(Error::invalid("max_ticks", "0", "must be at least 1"));
        }
        let rules = ReadRules::of(&self.name, &body)?;
        let first = rules.next(body.start_ms.unwrap_or(now_ms).saturating_sub(1));
        if first.is_none() {
            return Err(Error::invalid("end", body.expression, "never ticks before this schedule ends"));
        }
        Ok(Prepared { queue, name: self.name, body, limits })
    }

    /// The stored form, for a worker that declares it.
    ///
    /// # Errors
    /// [`Error::Invalid`] for an invalid schedule.
    #[doc(hidden)]
    pub fn prepared(self, client: &Client) -> Result<Prepared> {
        self.prepare(client.on_enqueue())
    }

    /// Checks only an expression.
    ///
    /// # Errors
    /// [`Error::Invalid`] with the place of the problem.
    pub fn check(expression: &str, zone: &str) -> Result<()> {
        ReadRules::calendar(expression, zone).map(drop)
    }
}

/// A schedule that was checked.
#[derive(Clone, Debug)]
#[doc(hidden)]
pub struct Prepared {
    /// The queue of its jobs.
    pub queue: Arc<str>,
    /// Its name.
    pub name: String,
    /// The stored definition.
    pub body: ScheduleBody,
    /// The limits that the job names but its task does not declare.
    pub limits: Vec<String>,
}

impl Prepared {
    /// The task of its jobs.
    pub fn task(&self) -> String {
        task_of(&self.body)
    }
}

pub(super) fn task_of(body: &ScheduleBody) -> String {
    Envelope::decode(&body.envelope).map(|envelope| envelope.task.into_owned()).unwrap_or_default()
}

fn bounded(field: &'static str, duration: Option<Duration>, most: Duration) -> Result<Option<u64>> {
    match duration {
        Some(long) if long > most => Err(Error::invalid(
            field,
            humantime::format_duration(long).to_string(),
            format!("is more than {}", humantime::format_duration(most)),
        )),
        duration => Ok(duration.map(|duration| u64::try_from(duration.as_millis()).unwrap_or(u64::MAX))),
    }
}

pub(super) fn ms(time: SystemTime) -> i64 {
    time.duration_since(UNIX_EPOCH).map_or(0, |since| i64::try_from(since.as_millis()).unwrap_or(i64::MAX))
}
