//! A job before it is encoded: its options, and the [`Draft`] by which middleware reads and changes
//! them.

use std::{
    collections::BTreeMap,
    error::Error as StdError,
    fmt,
    panic::{AssertUnwindSafe, catch_unwind},
    sync::Arc,
    time::{Duration, SystemTime, UNIX_EPOCH},
};

use crate::{
    broker::{Due, Hold, OnConflict, Priority},
    clock::Clock,
    error::{Error, Result},
    outcome::panic_text,
};

/// The options that an application has set on a job. A `None` leaves the choice to the task or the
/// worker.
#[derive(Clone, Debug, Default)]
pub(crate) struct Options {
    pub(crate) queue: Option<String>,
    pub(crate) due: Due,
    pub(crate) priority: Option<Priority>,
    pub(crate) max_attempts: Option<u32>,
    pub(crate) timeout: Option<Duration>,
    pub(crate) retention: Option<Duration>,
    pub(crate) expires: Option<Duration>,
    pub(crate) id: Option<String>,
    pub(crate) headers: BTreeMap<String, String>,
    pub(crate) unique: Option<Box<UniqueOptions>>,
    pub(crate) group: Option<String>,
    pub(crate) limits: Option<Box<LimitOptions>>,
    pub(crate) tags: BTreeMap<String, String>,
}

/// The options of a job for its limits.
#[derive(Clone, Debug, Default)]
pub(crate) struct LimitOptions {
    /// Names, and keys if there are any.
    pub(crate) given: BTreeMap<String, Option<String>>,
    pub(crate) cost: Option<u32>,
}

/// The options of a job for its unique key.
#[derive(Clone, Debug, Default)]
pub(crate) struct UniqueOptions {
    pub(crate) key: Option<String>,
    pub(crate) hold: Option<Hold>,
    pub(crate) on_conflict: Option<OnConflict>,
    /// How long each enqueue puts the job off, and whether the payload of the first one stays.
    pub(crate) debounce: Option<(Duration, bool)>,
    pub(crate) max_wait: Option<Duration>,
}

impl Options {
    /// The options for the limits.
    pub(crate) fn limits(&mut self) -> &mut LimitOptions {
        self.limits.get_or_insert_default()
    }

    /// The options for the key.
    pub(crate) fn unique(&mut self) -> &mut UniqueOptions {
        self.unique.get_or_insert_default()
    }

    /// Starts the job at this time. A time before 1970 is 1970.
    pub(crate) fn start_at(&mut self, time: SystemTime) {
        let ms = time.duration_since(UNIX_EPOCH).map_or(0, |since| i64::try_from(since.as_millis()).unwrap_or(i64::MAX));
        self.due = Due::AtMs(ms);
    }
}

/// A job that is about to be enqueued, as [`Middleware::enqueue`](crate::Middleware::enqueue) reads
/// and changes it.
///
/// Task, queue, id and payload are fixed. A setter has the same effect as the method of
/// [`Job`](crate::Job) with the same name, and the values are checked afterwards, in the same way.
/// A getter returns `None` if the job does not override the default.
///
/// ```
/// use queue_core::{Draft, Middleware, prelude::*};
///
/// /// Reports wait until nothing else does, and can be read for a day.
/// struct Reports;
///
/// impl Middleware for Reports {
///     fn enqueue(&self, draft: &mut Draft<'_>) -> queue_core::Result<()> {
///         if draft.task().starts_with("report.") {
///             draft.set_priority(Priority::Low);
///             if draft.retention().is_none() {
///                 draft.set_retention(Duration::from_secs(24 * 3600));
///             }
///         }
///         Ok(())
///     }
/// }
/// ```
pub struct Draft<'a> {
    task: &'a str,
    queue: &'a str,
    priority: Priority,
    payload_size: usize,
    options: &'a mut Options,
}

impl<'a> Draft<'a> {
    /// `queue` and `priority` are the defaults of the task, which the options override.
    pub(crate) fn new(task: &'a str, queue: &'a str, priority: Priority, payload_size: usize, options: &'a mut Options) -> Self {
        Draft { task, queue, priority, payload_size, options }
    }

    /// The error of a middleware that refuses this job, with the middleware's message or the error
    /// that it met.
    ///
    /// ```
    /// use queue_core::{Draft, Middleware};
    ///
    /// struct Directory;
    ///
    /// impl Middleware for Directory {
    ///     fn enqueue(&self, draft: &mut Draft<'_>) -> queue_core::Result<()> {
    ///         let tenant = std::fs::read_to_string("tenant").map_err(|error| draft.refused(error))?;
    ///         draft.set_header("tenant", tenant);
    ///         Ok(())
    ///     }
    /// }
    /// ```
    pub fn refused(&self, why: impl Into<Box<dyn StdError + Send + Sync>>) -> Error {
        Error::Refused { task: self.task.to_owned(), cause: Arc::from(why.into()) }
    }

    /// The name of the job's task.
    pub fn task(&self) -> &str {
        self.task
    }

    /// The queue of the job.
    pub fn queue(&self) -> &str {
        self.options.queue.as_deref().unwrap_or(self.queue)
    }

    /// The id that the application gave the job. `None`: the job gets a generated id.
    pub fn id(&self) -> Option<&str> {
        self.options.id.as_deref()
    }

    /// The unique key that the application gave the job. `None`: that of its task, if it has one.
    pub fn unique_key(&self) -> Option<&str> {
        self.options.unique.as_ref()?.key.as_deref()
    }

    /// The group that the application gave the job. `None`: that of its task, if it has one.
    pub fn group(&self) -> Option<&str> {
        self.options.group.as_deref()
    }

    /// Sets the group of the job, which overrides the one that its task derives from the
    /// parameters.
    pub fn set_group(&mut self, group: impl Into<String>) {
        self.options.group = Some(group.into());
    }

    /// The size of the encoded parameters, in bytes.
    pub fn payload_size(&self) -> usize {
        self.payload_size
    }

    /// A header of the job.
    pub fn header(&self, name: &str) -> Option<&str> {
        self.options.headers.get(name).map(String::as_str)
    }

    /// All headers of the job.
    pub fn headers(&self) -> &BTreeMap<String, String> {
        &self.options.headers
    }

    /// Adds a header, or replaces its value. The handler reads it with `ctx.header(name)`.
    pub fn set_header(&mut self, name: impl Into<String>, value: impl Into<String>) {
        self.options.headers.insert(name.into(), value.into());
    }

    /// Removes a header, and returns its value.
    pub fn remove_header(&mut self, name: &str) -> Option<String> {
        self.options.headers.remove(name)
    }

    /// The tags of the job.
    pub fn tags(&self) -> &BTreeMap<String, String> {
        &self.options.tags
    }

    /// Adds a tag, or replaces its value.
    pub fn set_tag(&mut self, name: impl Into<String>, value: impl Into<String>) {
        self.options.tags.insert(name.into(), value.into());
    }

    /// The job's priority, or that of its task.
    pub fn priority(&self) -> Priority {
        self.options.priority.unwrap_or(self.priority)
    }

    /// Changes the priority.
    pub fn set_priority(&mut self, priority: Priority) {
        self.options.priority = Some(priority);
    }

    /// The delay before the job starts. `None`: it starts at once, or [at a time](Self::at).
    pub fn delay(&self) -> Option<Duration> {
        match self.options.due {
            Due::After(delay) => Some(delay),
            Due::Now | Due::AtMs(_) => None,
        }
    }

    /// Starts the job after this delay, by the broker's clock. Zero: at once.
    pub fn set_delay(&mut self, delay: Duration) {
        self.options.due = Due::After(delay);
    }

    /// The time at which the job starts, in whole milliseconds. `None`: it starts at once, or after
    /// a [delay](Self::delay).
    pub fn at(&self) -> Option<SystemTime> {
        match self.options.due {
            Due::AtMs(ms) => Some(UNIX_EPOCH + Duration::from_millis(u64::try_from(ms).unwrap_or(0))),
            Due::Now | Due::After(_) => None,
        }
    }

    /// Starts the job at this time, by the broker's clock.
    pub fn set_at(&mut self, time: SystemTime) {
        self.options.start_at(time);
    }

    /// The number of failures that buries the job.
    pub fn max_attempts(&self) -> Option<u32> {
        self.options.max_attempts
    }

    /// Changes the number of failures that buries the job.
    pub fn set_max_attempts(&mut self, attempts: u32) {
        self.options.max_attempts = Some(attempts);
    }

    /// The longest time of one attempt.
    pub fn timeout(&self) -> Option<Duration> {
        self.options.timeout
    }

    /// Changes the longest time of one attempt.
    pub fn set_timeout(&mut self, timeout: Duration) {
        self.options.timeout = Some(timeout);
    }

    /// How long the job and its result are kept after it is done.
    pub fn retention(&self) -> Option<Duration> {
        self.options.retention
    }

    /// Changes how long the job and its result are kept after it is done.
    pub fn set_retention(&mut self, retention: Duration) {
        self.options.retention = Some(retention);
    }

    /// The time from now within which the job has to start, or it expires.
    pub fn expires(&self) -> Option<Duration> {
        self.options.expires
    }

    /// Drops the job (→ `expired`) if it has not started within this time from now.
    pub fn set_expires(&mut self, after: Duration) {
        self.options.expires = Some(after);
    }
}

impl fmt::Debug for Draft<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Draft")
            .field("task", &self.task)
            .field("queue", &self.queue())
            .field("payload_size", &self.payload_size)
            .field("options", &self.options)
            .finish_non_exhaustive()
    }
}

/// The part of a middleware that a client uses: it sees and changes a job before it is enqueued.
pub(crate) trait OnEnqueue: Send + Sync {
    fn on_enqueue(&self, draft: &mut Draft<'_>) -> Result<()>;
}

/// The middlewares in the order in which they are called, and the clock by which jobs are enqueued.
#[derive(Clone, Default)]
pub(crate) struct EnqueueStack {
    each: Vec<Arc<dyn OnEnqueue>>,
    clock: Clock,
}

impl EnqueueStack {
    /// An empty stack, for the clients of a broker with this clock.
    pub(crate) fn by(clock: Clock) -> Self {
        EnqueueStack { each: Vec::new(), clock }
    }

    pub(crate) fn clock(&self) -> &Clock {
        &self.clock
    }

    /// Appends a middleware.
    pub(crate) fn push(&mut self, last: impl OnEnqueue + 'static) {
        self.each.push(Arc::new(last));
    }

    /// Whether there is no middleware.
    pub(crate) fn is_empty(&self) -> bool {
        self.each.is_empty()
    }

    /// Passes a job to each middleware until one rejects it. A panic rejects it, too.
    pub(crate) fn enqueue(&self, draft: &mut Draft<'_>) -> Result<()> {
        let passed = catch_unwind(AssertUnwindSafe(|| self.each.iter().try_for_each(|each| each.on_enqueue(draft))));
        match passed {
            Ok(Ok(())) => Ok(()),
            Ok(Err(refused @ Error::Refused { .. })) => Err(refused),
            Ok(Err(error)) => Err(draft.refused(error)),
            Err(panic) => Err(draft.refused(format!("it panicked: {}", panic_text(panic)))),
        }
    }
}

impl fmt::Debug for EnqueueStack {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "EnqueueStack({})", self.each.len())
    }
}
