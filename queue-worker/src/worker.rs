//! The builder of a worker. `check` validates its settings, `limits` sets the retention of its
//! queues, `idle` stops it when there is nothing to do, and `inline` runs one job at a time.

mod check;
mod idle;
mod inline;
mod limits;

pub use self::inline::{Inline, InlineRan};

use std::{collections::BTreeSet, iter, net::SocketAddr, sync::Arc, time::Duration};

use queue_core::{
    __private::{DataMap, Environment, Runnable, Stack, keep_panic_places, listen},
    Backoff, Client, Middleware, Registry, TaskDef,
    schedule::Schedule,
};

use crate::{
    config::{CustomBackoff, FailedAttempt, QueueConfig, Settings},
    declarations::Declarations,
    engine,
    error::WorkerError,
    identity, metrics,
    shutdown::{self, Control, Shutdown, Stopped},
};

/// Runs the jobs of one or more queues.
///
/// The setters do not check their values. [`check`](Self::check) and the start of the worker report
/// every value outside its range.
///
/// ```standalone_crate
/// use queue_core::prelude::*;
/// use queue_worker::Worker;
///
/// #[task]
/// async fn greet(name: String, greeting: Data<String>) {
///     println!("{}, {name}!", *greeting);
/// }
///
/// # async fn example() -> Result<(), Box<dyn std::error::Error>> {
/// let queue = Client::connect("sqlite://:memory:").await?;
/// greet::job("Ada".to_owned()).enqueue(&queue).await?;
///
/// let worker = Worker::new(queue).data("Hello".to_owned()).concurrency(10);
/// # let stop = tokio::time::sleep(Duration::from_millis(200));
/// worker.run(stop).await?;        // or `.run_until_signal()`
/// # Ok(()) }
/// # tokio::runtime::Runtime::new().unwrap().block_on(example()).unwrap();
/// ```
#[derive(Debug)]
#[must_use = "a worker runs with `.run(..)` or `.run_until_signal()`"]
pub struct Worker {
    pub(crate) client: Client,
    pub(crate) registry: Registry,
    data: DataMap,
    queues: Vec<QueueConfig>,
    settings: Settings,
    middleware: Stack,
    health: Option<SocketAddr>,
    release: Option<String>,
    schedules: Vec<Schedule>,
    #[cfg(feature = "outbox")]
    relays: Vec<queue_outbox::Relay>,
}

impl Worker {
    /// A worker for all tasks that are linked into this program, on all of their queues.
    pub fn new(client: Client) -> Self {
        Worker {
            client,
            registry: Registry::linked(),
            data: DataMap::default(),
            queues: Vec::new(),
            settings: Settings::default(),
            middleware: Stack::default(),
            health: None,
            release: None,
            schedules: Vec::new(),
            #[cfg(feature = "outbox")]
            relays: Vec::new(),
        }
    }

    /// Replaces the worker's client by one that is derived from it: with middleware before
    /// enqueues, with an observer, or with another deadline. Handlers get the new client from their
    /// context. Use it in the `setup` of `queue_worker::run`, which receives a worker with a
    /// client.
    ///
    /// ```
    /// # use queue_core::{Middleware, prelude::*};
    /// # use queue_worker::Worker;
    /// # struct Tenants;
    /// # impl Middleware for Tenants {}
    /// # fn configured(worker: Worker) -> Worker {
    /// worker.map_client(|client| client.with_middleware(Tenants))
    /// # }
    /// ```
    pub fn map_client(mut self, change: impl FnOnce(&Client) -> Client) -> Self {
        self.client = change(&self.client);
        self
    }

    /// Provides a value to every task that takes a `Data<T>`. A second value of the same type
    /// replaces the first.
    pub fn data<T: Send + Sync + 'static>(self, value: T) -> Self {
        self.shared_data(Arc::new(value))
    }

    /// The same with a shared value. It may be a trait object: with an `Arc<dyn Mailer>`, tasks
    /// take a `Data<dyn Mailer>`.
    pub fn shared_data<T: ?Sized + Send + Sync + 'static>(mut self, value: Arc<T>) -> Self {
        self.data.insert(value);
        self
    }

    /// Adds a task that the linker may have dropped. Naming its crate has the same effect:
    /// `use shop_tasks as _;`.
    pub fn register<T: Runnable>(mut self) -> Self {
        self.registry.register::<T>();
        self
    }

    /// Uses the tasks of this registry instead of the linked tasks.
    pub fn registry(mut self, registry: Registry) -> Self {
        self.registry = registry;
        self
    }

    /// Serves this queue. Call it again for further queues. A [`QueueConfig`] sets a weight (1 or
    /// more, default 1) and a limit of running jobs (1 or more, default: the concurrency). Default:
    /// the queues of all known tasks.
    pub fn queue(mut self, queue: impl Into<QueueConfig>) -> Self {
        self.queues.push(queue.into());
        self
    }

    /// Serves a queue only while the queues named before it have no jobs to start. Default: off;
    /// free slots are shared by weight.
    pub fn strict_order(mut self) -> Self {
        self.settings.strict_order = true;
        self
    }

    /// Most jobs that run at once in this process. Range: 1 to 100,000. Default: 64.
    pub fn concurrency(mut self, jobs: usize) -> Self {
        self.settings.concurrency = jobs;
        self
    }

    /// The length of the lease: how long the worker keeps its jobs without a heartbeat. The worker
    /// renews the lease every sixth of this time, and at least every five seconds. All workers of a
    /// queue should have the same. Range: 300 ms to 24 h. Default: 30 s.
    pub fn lease(mut self, lease: Duration) -> Self {
        self.settings.lease = lease;
        self
    }

    /// The grace time: how long running jobs may take to finish after a stop request. Range: 0 to 7
    /// days. Default: 25 s.
    ///
    /// In the last second of the grace time, or its last quarter if that is shorter, handlers are
    /// cancelled ([`JobContext::cancelled`](queue_core::JobContext::cancelled)). Handlers that
    /// still run at its end are dropped, and their jobs are returned uncharged. Two things may take
    /// longer than the grace time:
    ///
    /// - A handler that blocks its thread cannot be dropped: it is *stuck*. The worker waits half a
    ///   second longer for it, names it in the log, and exits without it. Its job stays leased, and
    ///   runs again, uncharged, when the lease expires: see [`exit_if_stuck`](Self::exit_if_stuck).
    /// - The last answers to the broker: milliseconds, and at most 3 seconds if the broker does not
    ///   answer.
    pub fn grace(mut self, grace: Duration) -> Self {
        self.settings.grace = grace;
        self
    }

    /// Ends the process with this exit code if handlers are stuck when the worker stops: about a
    /// second after the worker has named them in the log, and at most 3 seconds after the grace
    /// time or the second signal. Until then, [`run`](Self::run) may return, and the program may
    /// end by itself. Without this, a runtime that is dropped waits for the threads that such
    /// handlers block: the process continues without a worker, and when the leases expire the jobs
    /// run in two processes. Default: off; `queue_worker::run` sets the code 7.
    ///
    /// The exit ends every worker of the process, and charges the jobs of those that are not
    /// stopping with a crash. Stop the workers of one process together: give them one [`Shutdown`]
    /// and one grace time.
    pub fn exit_if_stuck(mut self, code: i32) -> Self {
        self.settings.exit = Some(code);
        self
    }

    /// The number of failures after which a job becomes a dead letter, unless task or job set it.
    /// Range: 1, which means no retry, or more. Default: 25.
    pub fn max_attempts(mut self, attempts: u32) -> Self {
        self.settings.max_attempts = attempts;
        self
    }

    /// The number of crashes within the [crash window](Self::crash_window) after which a job
    /// becomes a dead letter as `crashed`. Range: 1 or more. Default: 3.
    /// `#[task(max_crashes = 10)]` overrides it for a task; the worker that reclaims the job
    /// applies it.
    pub fn max_crashes(mut self, crashes: u32) -> Self {
        self.settings.crashes.max_crashes = crashes;
        self
    }

    /// How long a job whose parameters this worker's release cannot read waits for a release that
    /// can. Range: 0, which makes it a dead letter at once, or more. Default: 24 h.
    ///
    /// The job is parked, and offered once to the workers of each other [release](Self::release).
    /// When this time has passed since the first release failed on it, the job becomes
    /// a dead letter as `undecodable`.
    pub fn unreadable_for(mut self, time: Duration) -> Self {
        self.settings.unreadable_for = time;
        self
    }

    /// The longest time of one attempt, unless task or job set it. Range: more than 0, to 100
    /// years. Default: no limit.
    pub fn timeout(mut self, timeout: Duration) -> Self {
        self.settings.timeout = Some(timeout);
        self
    }

    /// The backoff, unless the task sets it. Range: `base` is at most `max`. Default: 2 s, doubling
    /// up to 24 h; the upper half of each delay is random.
    pub fn backoff(mut self, backoff: Backoff) -> Self {
        self.settings.backoff = backoff;
        self
    }

    /// Computes the delay before each retry, and overrides every backoff. Default: none.
    pub fn custom_backoff(mut self, delay: impl Fn(&FailedAttempt<'_>) -> Duration + Send + Sync + 'static) -> Self {
        self.settings.custom_backoff = Some(CustomBackoff(Arc::new(delay)));
        self
    }

    /// How long done jobs and their results are kept, unless task or job set it. Range: 0 to 100
    /// years. Default: not at all. A job that was enqueued with [`call`](queue_core::Job::call)
    /// sets it, to the timeout of the caller + 10 s.
    pub fn retention(mut self, retention: Duration) -> Self {
        self.settings.retention = Some(retention);
        self
    }

    /// Runs this middleware around every job. Call it again for more middleware: the first one is
    /// the outermost. For middleware around enqueues, use [`Client::with_middleware`]. Default:
    /// none.
    pub fn middleware(mut self, middleware: impl Middleware) -> Self {
        self.middleware.push(middleware);
        self
    }

    /// Answers `GET /health` and `GET /ready` on this address. Port 0 takes a free port, which is
    /// logged. Default: off.
    ///
    /// - `/health` is for liveness probes. It is 503 if a restart may help: the worker has made no
    ///   progress for 20 s, or one of its duties panics repeatedly. Otherwise it is 200, even if
    ///   the broker is unavailable.
    /// - `/ready` is for readiness probes. It is 200 while the worker takes jobs. It is 503 while
    ///   the broker has not been reached yet or has not answered for three heartbeats (15 s with
    ///   the default lease), if the SQLite file was deleted, moved or replaced, and while the
    ///   worker stops. If the broker is full it stays 200, with `"full": true`: stored jobs are
    ///   still claimed and can finish.
    ///
    /// With the feature `prometheus`, it also answers `GET /metrics`.
    pub fn health(mut self, address: SocketAddr) -> Self {
        self.health = Some(address);
        self
    }

    /// The version of the application that this worker runs, such as `v42`; at most 256 bytes.
    /// `workers` and [`Inspector::workers`](queue_core::inspect::Inspector::workers) show it.
    /// Default: the environment variable `QUEUE_RELEASE`, else `exe-` and a digest of the
    /// executable. Two builds are therefore two releases. If the executable cannot be read, the
    /// release is `unknown`.
    pub fn release(mut self, release: impl Into<String>) -> Self {
        self.release = Some(release.into());
        self
    }

    /// Declares a schedule, which is stored in the broker when the worker starts. Workers of the
    /// same release declare the same. If a later release declares another definition, it applies
    /// while a worker of that release is alive. A definition set at run time overrides both. A
    /// schedule that no live worker has declared for an hour is paused.
    pub fn schedule(mut self, schedule: Schedule) -> Self {
        self.schedules.push(schedule);
        self
    }

    /// Runs the relay of an outbox for as long as the worker runs: it sends the jobs that have
    /// committed with the data of the application. It serves every queue of the outbox, not only
    /// those of the worker. Run one in each worker: several are safe. Call it again for further
    /// databases.
    ///
    /// The relay stops when the worker's jobs have ended, so that it also sends what these have
    /// stored. It may take up to 3 seconds longer than the grace time if the broker or the database
    /// does not answer. Rows that are not sent by then wait for another relay.
    ///
    /// ```no_run
    /// # use queue_worker::Worker;
    /// # use queue_outbox::Relay;
    /// # fn configured(worker: Worker, relay: Relay) -> Worker {
    /// // let relay = Relay::postgres("postgres://shop@db/shop")?;
    /// worker.outbox(relay)
    /// # }
    /// ```
    #[cfg(feature = "outbox")]
    pub fn outbox(mut self, relay: queue_outbox::Relay) -> Self {
        self.relays.push(relay);
        self
    }

    /// The client of the worker's broker.
    pub fn client(&self) -> &Client {
        &self.client
    }

    /// The tasks that the worker can run.
    pub fn tasks(&self) -> &Registry {
        &self.registry
    }

    /// The names of the queues that the worker serves.
    #[cfg(feature = "cli")]
    pub(crate) fn queue_names(&self) -> Vec<String> {
        self.served().into_iter().map(|queue| queue.name).collect()
    }

    /// Serves these queues instead of the earlier ones.
    #[cfg(feature = "cli")]
    pub(crate) fn only_queues(mut self, queues: Vec<QueueConfig>) -> Self {
        self.queues = queues;
        self
    }

    /// A queue may hold jobs of tasks from other queues, but an unknown queue is usually a typing
    /// error.
    fn warn_of_unknown_queues(&self, queues: &[QueueConfig]) {
        let known: BTreeSet<&str> = self.registry.tasks().map(|task| task.queue).collect();
        for queue in queues.iter().filter(|queue| !known.contains(queue.name.as_str())) {
            let near = queue_core::__private::nearest(&queue.name, known.iter().copied());
            let near = near.map(|near| format!("; did you mean `{near}`?")).unwrap_or_default();
            tracing::warn!(
                queue = queue.name,
                "no task of this program has this queue: the worker runs only jobs that name the queue when they are enqueued{near}"
            );
        }
    }

    fn served(&self) -> Vec<QueueConfig> {
        if !self.queues.is_empty() {
            return self.queues.clone();
        }
        let names: BTreeSet<&str> = self.registry.tasks().map(|task| task.queue).collect();
        names.into_iter().map(QueueConfig::from).collect()
    }

    /// Runs jobs until `shutdown` is ready, then drains: running jobs may end within the grace
    /// time, and the others are returned uncharged. Dropping the returned future stops at once,
    /// without a grace time.
    ///
    /// The worker waits for a broker that cannot be reached, at its start and later.
    /// ([`Client::connect`] does not wait: if a worker may start before its broker, take its client
    /// from [`Client::open`].)
    ///
    /// # Errors
    /// [`WorkerError::Setup`] before the worker has started; the error of the broker's
    /// [`check`](queue_core::broker::Broker::check), if waiting does not resolve it.
    pub async fn run(self, shutdown: impl Future<Output = ()> + Send) -> Result<Stopped, WorkerError> {
        self.run_until(async move |control: &Control| {
            shutdown.await;
            control.drain();
        })
        .await
    }

    /// Runs jobs until `shutdown` requests a stop. See [`Shutdown`] for its two stages.
    ///
    /// # Errors
    /// Those of [`run`](Self::run).
    pub async fn run_with(self, shutdown: Shutdown) -> Result<Stopped, WorkerError> {
        self.run_until(async move |control: &Control| shutdown.attach(control.sender())).await
    }

    /// Runs jobs until SIGTERM, SIGINT (Ctrl-C), SIGHUP or SIGQUIT, then drains as
    /// [`run`](Self::run) does. A second signal skips the grace time. Signals are received even if
    /// a handler blocks every thread of the runtime. Under `nohup`, SIGHUP has no effect.
    ///
    /// # Errors
    /// Those of [`run`](Self::run); [`WorkerError::Died`] if signal handlers cannot be installed.
    pub async fn run_until_signal(self) -> Result<Stopped, WorkerError> {
        let (shutdown, grace, exit) = (Shutdown::new(), self.settings.grace, self.settings.exit);
        let stopped = shutdown.clone();
        let listening = listen(move |signals| shutdown::stop_at_signal(signals, stopped, grace, exit));
        let _listening = listening.map_err(|error| WorkerError::Died(format!("cannot listen for signals: {error}")))?;
        self.run_with(shutdown).await
    }

    async fn run_until(self, stop: impl AsyncFnOnce(&Control)) -> Result<Stopped, WorkerError> {
        self.check()?;
        let plan = self.plan()?;
        let (control, stage) = Control::new();
        let stopping = async {
            stop(&control).await;
            std::future::pending::<()>().await;
        };
        tokio::select! {
            ended = engine::run(plan, stage) => ended,
            () = stopping => unreachable!("it waits forever once it has told the engine"),
        }
    }

    fn plan(self) -> Result<engine::Plan, WorkerError> {
        keep_panic_places();
        let declarations = Declarations {
            schedules: self.declared().map_err(WorkerError::Setup)?,
            limits: self.limits().map_err(WorkerError::Setup)?,
            groups: self.group_rules().map_err(WorkerError::Setup)?,
            aging: self.aging().map_err(WorkerError::Setup)?,
            subscriptions: self.subscriptions().map_err(WorkerError::Setup)?,
        };
        let queues = self.served();
        self.warn_of_unknown_queues(&queues);
        let mut settings = self.settings;
        settings.crashes.tasks = crashes_of(&self.registry);
        let client = metrics::observed(&self.client);
        let environment = Environment::new(self.data, Some(client.clone()));
        Ok(engine::Plan {
            client,
            registry: self.registry,
            environment,
            queues,
            settings,
            middleware: self.middleware,
            health: self.health,
            release: identity::release(self.release.as_deref()),
            declarations: Arc::new(declarations),
            #[cfg(feature = "outbox")]
            relays: self.relays,
        })
    }
}

/// The maximum numbers of crashes of the tasks that declare one, by all names of these tasks. The
/// list lives as long as the process, which starts a worker only once.
fn crashes_of(registry: &Registry) -> &'static [(&'static str, u32)] {
    let of_task = |task: &'static TaskDef| Some((task, task.max_crashes?));
    let named =
        |(task, most): (&'static TaskDef, u32)| iter::once(task.name).chain(task.aliases.iter().copied()).map(move |name| (name, most));
    let tasks: Vec<(&str, u32)> = registry.tasks().filter_map(of_task).flat_map(named).collect();
    if tasks.is_empty() { &[] } else { tasks.leak() }
}
