//! The context of a running job: its [`JobContext`], and the application's [`Data`].

pub(crate) mod completion;
mod cost;
mod progress;

use std::{
    any::{Any, TypeId},
    collections::{BTreeMap, HashMap},
    fmt,
    ops::Deref,
    sync::{
        Arc, LazyLock,
        atomic::{AtomicU8, AtomicU32, AtomicU64, Ordering},
    },
    time::{Duration, Instant, SystemTime, UNIX_EPOCH},
};

use tokio::sync::{Notify, mpsc};

use self::{completion::Completion, cost::NowUsed, progress::Reports};
pub(crate) use crate::outcome::CancelCause;
use crate::{address::JobId, broker::PartyName, client::Client};

/// A value of the application that each job may request: a pool, a client, settings.
///
/// Register it with `worker.data(value)`; take it as a parameter `shop: Data<Shop>`. It
/// dereferences to the value. A value that is registered as `Arc<Shop>` is a `Data<Shop>` too. For
/// a trait object, register `Arc<dyn Mailer>` with `worker.shared_data(..)`, and take
/// `mailer: Data<dyn Mailer>`; the trait requires `Send` and `Sync`, or the type is
/// `dyn Mailer + Send + Sync`.
pub struct Data<T: ?Sized>(Arc<T>);

impl<T: ?Sized> Data<T> {
    /// Wraps a shared value, for a direct call of a task function.
    pub fn new(value: impl Into<Arc<T>>) -> Self {
        Data(value.into())
    }

    /// The shared value.
    pub fn into_inner(self) -> Arc<T> {
        self.0
    }
}

impl<T: ?Sized> Clone for Data<T> {
    fn clone(&self) -> Self {
        Data(self.0.clone())
    }
}

impl<T: ?Sized> Deref for Data<T> {
    type Target = T;
    fn deref(&self) -> &T {
        &self.0
    }
}

impl<T: ?Sized + fmt::Debug> fmt::Debug for Data<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

/// The application's values, by type. One per worker.
#[derive(Clone, Default)]
pub struct DataMap(HashMap<TypeId, Arc<dyn Any + Send + Sync>>); // of `Data<T>`, by the id of `T`

impl DataMap {
    /// Adds a value. A second one of the same type replaces the first.
    pub fn insert<T: ?Sized + Send + Sync + 'static>(&mut self, value: Arc<T>) {
        self.0.insert(TypeId::of::<T>(), Arc::new(Data(value)));
    }

    /// Finds a value, or the one inside of an `Arc` that was given as the value.
    pub fn get<T: ?Sized + 'static>(&self) -> Option<Data<T>> {
        self.exactly::<T>().or_else(|| self.exactly::<Arc<T>>().map(|shared| Data(Arc::clone(&shared))))
    }

    fn exactly<T: ?Sized + 'static>(&self) -> Option<Data<T>> {
        self.0.get(&TypeId::of::<T>()).and_then(|value| value.downcast_ref::<Data<T>>()).cloned()
    }

    /// Whether [`get`](Self::get) finds it.
    pub fn has(&self, need: &DataNeed) -> bool {
        self.0.contains_key(&need.id) || self.0.contains_key(&need.shared)
    }
}

impl fmt::Debug for DataMap {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "DataMap({})", self.0.len())
    }
}

/// A `Data<T>` that a task needs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct DataNeed {
    /// The type.
    pub id: TypeId,
    /// Its name, for the message when it is missing.
    pub name: &'static str,
    /// The type of an `Arc` of the value, which is suitable as well.
    pub(crate) shared: TypeId,
}

impl DataNeed {
    /// The need for a value of type `T`.
    pub fn of<T: ?Sized + 'static>() -> Self {
        DataNeed { id: TypeId::of::<T>(), name: std::any::type_name::<T>(), shared: TypeId::of::<Arc<T>>() }
    }
}

/// The running job: its identity, its counters, its lease, and the values of the application. Cheap
/// to clone.
///
/// A handler takes it as a parameter. The worker provides it; it is not part of the payload.
///
/// ```
/// use queue_core::{TestContext, prelude::*};
///
/// #[task(queue = "reports", max_attempts = 5)]
/// async fn export(months: Vec<String>, ctx: JobContext) -> Result<(), String> {
///     for (at, month) in months.iter().enumerate() {
///         if ctx.cancel_cause().is_some() {
///             return Err(format!("stopped before {month}"));
///         }
///         ctx.progress(at as f64 / months.len() as f64, month);
///     }
///     ctx.log(format!("attempt {} of {} has exported {} months", ctx.attempt(), ctx.max_attempts(), months.len()));
///     Ok(())
/// }
///
/// # async fn test() {
/// // A test calls the function with a context of its own.
/// let context = TestContext::new().attempt(2).build();
/// assert_eq!(export(vec!["May".to_owned()], context.clone()).await, Ok(()));
///
/// context.cancel(queue_core::CancelCause::Shutdown);
/// assert!(export(vec!["May".to_owned()], context).await.is_err());
/// # }
/// # tokio::runtime::Builder::new_current_thread().build().unwrap().block_on(test());
/// ```
#[derive(Clone)]
pub struct JobContext(Arc<Running>);

struct Running {
    init: ContextInit,
    cancel: AtomicU8,
    polls: AtomicU32,
    cancelled: Notify,
    reports: Reports,
    used: NowUsed,
}

/// The initial data of a [`JobContext`].
#[derive(Clone, Debug)]
#[non_exhaustive]
#[allow(missing_docs, reason = "the fields are the methods of JobContext")]
pub struct ContextInit {
    pub id: JobId,
    pub queue: Arc<str>,
    pub task: Arc<str>,
    pub claim: u64,
    pub attempts: u32,
    pub crashes: u32,
    pub snoozes: u32,
    pub rate_limited: u32,
    pub max_attempts: u32,
    pub headers: BTreeMap<String, String>,
    pub lease: LeaseClock,
    pub deadline: Option<Instant>,
    pub environment: Arc<Environment>,
    pub scheduled_ms: Option<i64>,
    pub lane: Option<PartyName>,
    pub completion: Option<Arc<Completion>>,
}

impl ContextInit {
    /// A first attempt.
    pub fn new(queue: impl Into<Arc<str>>, task: impl Into<Arc<str>>, id: JobId, environment: Arc<Environment>) -> Self {
        ContextInit {
            id,
            queue: queue.into(),
            task: task.into(),
            claim: 0,
            attempts: 0,
            crashes: 0,
            snoozes: 0,
            rate_limited: 0,
            max_attempts: crate::task::DEFAULT_MAX_ATTEMPTS,
            headers: BTreeMap::new(),
            lease: LeaseClock::default(),
            deadline: None,
            environment,
            scheduled_ms: None,
            lane: None,
            completion: None,
        }
    }
}

/// The data that all jobs of a worker share.
#[derive(Clone, Debug, Default)]
#[non_exhaustive]
pub struct Environment {
    /// The application's values, by type.
    pub data: DataMap,
    /// The client of the worker's broker.
    pub client: Option<Client>,
    /// Receives the jobs whose handlers have reported progress or log lines that are not stored
    /// yet.
    pub reporting: Option<mpsc::UnboundedSender<JobContext>>,
}

impl Environment {
    /// An environment with these values and this client.
    pub fn new(data: DataMap, client: Option<Client>) -> Self {
        Environment { data, client, reporting: None }
    }

    /// The same, with a channel for the jobs whose handlers have reported progress or log lines.
    pub fn with_reporting(&self, reporting: mpsc::UnboundedSender<JobContext>) -> Self {
        Environment { reporting: Some(reporting), ..self.clone() }
    }
}

/// The end of a lane's lease. The heartbeat that moves it and the jobs that check it share it.
#[derive(Clone, Debug, Default)]
pub struct LeaseClock(Arc<AtomicU64>);

static EPOCH: LazyLock<Instant> = LazyLock::new(Instant::now);

impl LeaseClock {
    /// Moves the end of the lease.
    pub fn set(&self, until: Instant) {
        self.0.store(u64::try_from(until.saturating_duration_since(*EPOCH).as_nanos()).unwrap_or(u64::MAX), Ordering::Relaxed);
    }

    /// Whether the lease ends later than now. A lease that was never set has ended.
    pub fn is_valid(&self) -> bool {
        self.0.load(Ordering::Relaxed) != 0 && self.until() > Instant::now()
    }

    /// When the lease ends.
    pub fn until(&self) -> Instant {
        *EPOCH + Duration::from_nanos(self.0.load(Ordering::Relaxed))
    }
}

impl JobContext {
    /// A context, for workers and for direct calls of a task function.
    pub fn new(init: ContextInit) -> Self {
        JobContext(Arc::new(Running {
            init,
            cancel: AtomicU8::new(0),
            polls: AtomicU32::new(0),
            cancelled: Notify::new(),
            reports: Reports::default(),
            used: NowUsed::default(),
        }))
    }

    /// Counts the beginnings and the ends of polls of the handler: one that stays odd blocks the
    /// thread of its runtime. For workers.
    #[doc(hidden)]
    pub fn polls(&self) -> &AtomicU32 {
        &self.0.polls
    }

    /// The job's id.
    pub fn id(&self) -> &JobId {
        &self.0.init.id
    }

    /// The queue of the job.
    pub fn queue(&self) -> &str {
        &self.0.init.queue
    }

    /// The name of its task.
    pub fn task(&self) -> &str {
        &self.0.init.task
    }

    /// Which attempt this is, from 1. Snoozes, releases and crashes do not count.
    pub fn attempt(&self) -> u32 {
        self.0.init.attempts.saturating_add(1)
    }

    /// The attempt whose failure makes the job a dead letter.
    pub fn max_attempts(&self) -> u32 {
        self.0.init.max_attempts
    }

    /// The tick of the schedule for which this job was made: its nominal time, whenever the job
    /// runs. `None`: no schedule made it. A job that was started with `run_now` has the time
    /// of that call.
    pub fn scheduled_for(&self) -> Option<SystemTime> {
        let ms = u64::try_from(self.0.init.scheduled_ms?).ok()?;
        UNIX_EPOCH.checked_add(Duration::from_millis(ms))
    }

    /// How many crashes the job was charged with: crashes of a worker process that held it.
    pub fn crashes(&self) -> u32 {
        self.0.init.crashes
    }

    /// How often the job has snoozed.
    pub fn snoozes(&self) -> u32 {
        self.0.init.snoozes
    }

    /// How often the job ended with [`Outcome::RateLimited`](crate::Outcome::RateLimited) or
    /// `RateLimitedBy`. The thousandth time makes it a dead letter.
    pub fn rate_limited(&self) -> u32 {
        self.0.init.rate_limited
    }

    /// A number that grows with every start of this job. Store it together with the data that the
    /// job writes, and refuse writes with a smaller number. Then a run that has lost its lease
    /// cannot overwrite its successor ("fencing token": M. Kleppmann, 2016).
    pub fn claim(&self) -> u64 {
        self.0.init.claim
    }

    /// A header given at enqueue, such as `traceparent`.
    pub fn header(&self, name: &str) -> Option<&str> {
        self.0.init.headers.get(name).map(String::as_str)
    }

    /// All headers given at enqueue.
    pub fn headers(&self) -> &BTreeMap<String, String> {
        &self.0.init.headers
    }

    /// The end of the job's lease, as this process last saw it. Heartbeats extend it while the
    /// broker is reachable.
    pub fn lease_until(&self) -> Instant {
        self.0.init.lease.until()
    }

    /// When the handler reaches its timeout and is cancelled; `None` without a timeout.
    pub fn deadline(&self) -> Option<Instant> {
        self.0.init.deadline
    }

    /// The value of this type that the worker was given; `None` if it has none.
    pub fn data<T: ?Sized + 'static>(&self) -> Option<Data<T>> {
        self.0.init.environment.data.get()
    }

    /// The data that the run needs for its commit. `None`: its task does not return
    /// [`Done`](crate::Done).
    #[doc(hidden)]
    pub fn completion(&self) -> Option<&Completion> {
        self.0.init.completion.as_deref()
    }

    /// The client of the worker's broker, to enqueue further jobs.
    ///
    /// # Panics
    /// In a context that a test created without a client.
    pub fn client(&self) -> &Client {
        self.0.init.environment.client.as_ref().expect("a worker gives every context its client")
    }

    /// Why the handler should stop; `None` while it should continue.
    pub fn cancel_cause(&self) -> Option<CancelCause> {
        match self.0.cancel.load(Ordering::Acquire) {
            1 => Some(CancelCause::Cancelled),
            2 => Some(CancelCause::LeaseLost),
            3 => Some(CancelCause::TimedOut),
            4 => Some(CancelCause::Shutdown),
            _ => None,
        }
    }

    /// Waits until the handler should stop. An async handler is dropped soon after. A blocking
    /// handler must check [`cancel_cause`](Self::cancel_cause).
    pub async fn cancelled(&self) -> CancelCause {
        loop {
            let notified = self.0.cancelled.notified();
            tokio::pin!(notified);
            notified.as_mut().enable();
            if let Some(cause) = self.cancel_cause() {
                return cause;
            }
            notified.await;
        }
    }

    /// Asks the handler to stop. The first cause is kept.
    pub fn cancel(&self, cause: CancelCause) {
        let code = match cause {
            CancelCause::Cancelled => 1,
            CancelCause::LeaseLost => 2,
            CancelCause::TimedOut => 3,
            CancelCause::Shutdown => 4,
        };
        if self.0.cancel.compare_exchange(0, code, Ordering::AcqRel, Ordering::Acquire).is_ok() {
            self.0.cancelled.notify_waiters();
        }
    }
}

impl fmt::Debug for JobContext {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("JobContext")
            .field("id", self.id())
            .field("queue", &self.queue())
            .field("task", &self.task())
            .field("attempt", &self.attempt())
            .finish_non_exhaustive()
    }
}
