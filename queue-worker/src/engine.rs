//! Puts the parts of a running worker together.

use std::{
    collections::{BTreeMap, HashMap},
    net::SocketAddr,
    panic::AssertUnwindSafe,
    sync::{
        Arc, Mutex, PoisonError,
        atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering},
    },
    time::Duration,
};

use futures_util::FutureExt;
use queue_core::{
    __private::{Endings, Environment, HandlerDef, LeaseClock, Stack, panic_text},
    Client, Registry,
    broker::{Condition, DynBroker, ProcessId, Subscribe, WorkerInfo},
    schedule::Prepared,
};
use tokio::sync::{mpsc, oneshot, watch};
use tokio_util::sync::CancellationToken;

use crate::{
    arrival,
    config::{QueueConfig, Settings},
    declarer::Declarer,
    duty::{Restarts, Supervisor},
    error::WorkerError,
    failures::Failures,
    hints::Hints,
    historian::{Historian, Reports},
    http::{self, Http},
    identity,
    janitor::Janitor,
    metrics,
    monitor::Monitor,
    operator::Operator,
    outage::Outage,
    pump::{Event, Pump},
    reclaimer::Reclaimer,
    run::{self as runner, Threads},
    scribe::{Desk, Scribe},
    shutdown::Stage,
    tallies::Tallies,
    ticker::Ticker,
    time::now,
    worker::{GroupRules, Limits, Stopped},
};

/// What a worker was configured to be.
pub(crate) struct Plan {
    pub(crate) client: Client,
    pub(crate) registry: Registry,
    pub(crate) environment: Arc<Environment>,
    pub(crate) queues: Vec<QueueConfig>,
    pub(crate) settings: Settings,
    pub(crate) middleware: Stack,
    pub(crate) health: Option<SocketAddr>,
    /// Its configuration.
    pub(crate) release: Option<String>,
    /// The schedules that its code declares.
    pub(crate) schedules: Vec<Prepared>,
    /// The limits that its code declares.
    pub(crate) limits: Limits,
    /// What its code declares of all groups, by queue.
    pub(crate) groups: GroupRules,
    /// How often jobs of its queues rise that wait, as its code declares it.
    pub(crate) aging: BTreeMap<&'static str, Duration>,
    pub(crate) subscriptions: Vec<Subscribe>,
    /// Those of outboxes.
    #[cfg(feature = "outbox")]
    pub(crate) relays: Vec<queue_outbox::Relay>,
}

/// What all parts of a running worker share.
pub(crate) struct Shared {
    pub(crate) broker: DynBroker,
    pub(crate) process: ProcessId,
    /// The record that it sends when a lane registers.
    pub(crate) info: WorkerInfo,
    /// Its release.
    pub(crate) release: Arc<str>,
    pub(crate) settings: Settings,
    pub(crate) environment: Arc<Environment>,
    pub(crate) middleware: Stack,
    /// Where blocking tasks run.
    pub(crate) threads: Threads,
    /// Where tasks commit the endings of their jobs. `None`: in no database that is known.
    pub(crate) endings: Option<Box<dyn Endings>>,
    pub(crate) tasks: HashMap<&'static str, Known>,
    /// The functions of subscriptions, by queue and type of event.
    pub(crate) subscribers: HashMap<&'static str, HashMap<&'static str, Known>>,
    /// The subscriptions that they are of.
    pub(crate) subscriptions: Vec<Subscribe>,
    pub(crate) queues: Vec<Arc<str>>,
    /// Until when somebody waits for a job of each, as far as is known: results are brought of jobs that are not kept.
    pub(crate) watched: Vec<LeaseClock>,
    /// The last rounds of repeating jobs, for their traces.
    #[cfg(feature = "otel")]
    pub(crate) rounds: queue_core::observe::otel::Rounds,
    /// Which of them have, or had, schedules.
    pub(crate) has_schedules: Vec<AtomicBool>,
    /// The schedules that its code declares.
    pub(crate) schedules: Vec<Prepared>,
    /// The limits that its code declares.
    pub(crate) limits: Limits,
    /// What its code declares of all groups, by queue.
    pub(crate) groups: GroupRules,
    /// How often jobs of its queues rise that wait, as its code declares it.
    pub(crate) aging: BTreeMap<&'static str, Duration>,
    /// How many jobs run.
    pub(crate) running: AtomicUsize,
    /// How many of them should have ended and do not.
    pub(crate) stuck: AtomicUsize,
    /// How many handlers have ended.
    pub(crate) finished: AtomicU64,
    /// Whether the worker has a stop request: no job is started any more.
    pub(crate) stopping: AtomicBool,
    /// Whether a person has asked it to claim nothing.
    pub(crate) quiet: AtomicBool,
    /// Whether the broker was in reach once, so that work could begin.
    pub(crate) reached: AtomicBool,
    /// When the broker last answered.
    pub(crate) contact: LeaseClock,
    /// When the pump last read its clock.
    pub(crate) pulse: LeaseClock,
    pub(crate) restarts: Arc<Restarts>,
    /// What has happened to jobs and was not reported yet.
    pub(crate) tallies: Tallies,
    pub(crate) failures: Failures,
    pub(crate) reports: tokio::sync::Mutex<Reports>,
    /// Progress and log lines of handlers that are not stored yet.
    pub(crate) scribe: Desk,
    /// The condition of the broker at the last check.
    condition: Mutex<Condition>,
    pub(crate) outage: Arc<Outage>,
}

/// The handler of a task, and the name of the task to be shared.
pub(crate) struct Known {
    pub(crate) handler: &'static HandlerDef,
    pub(crate) name: Arc<str>,
}

impl Shared {
    pub(crate) fn new(plan: &Plan, info: WorkerInfo, release: &str) -> Self {
        let (broker, registry) = (plan.client.broker().clone(), &plan.registry);
        let known = |name| registry.get(name).map(|handler| (name, Known { handler, name: handler.task.name.into() }));
        let mut subscribers = HashMap::<_, HashMap<_, _>>::new();
        for handler in registry.subscribers() {
            let task = handler.task;
            subscribers.entry(task.queue).or_default().insert(task.name, Known { handler, name: task.name.into() });
        }
        let (scribe, told) = Desk::new();
        let environment = Arc::new(plan.environment.telling(told));
        Shared {
            process: ProcessId::random(),
            info,
            release: release.into(),
            settings: plan.settings.clone(),
            environment,
            middleware: plan.middleware.clone(),
            threads: Threads::default(),
            #[cfg(feature = "outbox")]
            endings: queue_outbox::Relay::endings(&plan.relays),
            #[cfg(not(feature = "outbox"))]
            endings: None,
            tasks: registry.names().filter_map(known).collect(),
            subscribers,
            subscriptions: plan.subscriptions.clone(),
            queues: plan.queues.iter().map(|queue| queue.name.as_str().into()).collect(),
            watched: plan.queues.iter().map(|_| LeaseClock::default()).collect(),
            #[cfg(feature = "otel")]
            rounds: queue_core::observe::otel::Rounds::default(),
            has_schedules: plan.queues.iter().map(|_| AtomicBool::new(false)).collect(),
            schedules: plan.schedules.clone(),
            limits: plan.limits.clone(),
            groups: plan.groups.clone(),
            aging: plan.aging.clone(),
            running: AtomicUsize::new(0),
            stuck: AtomicUsize::new(0),
            finished: AtomicU64::new(0),
            stopping: AtomicBool::new(false),
            quiet: AtomicBool::new(false),
            reached: AtomicBool::new(false),
            contact: LeaseClock::default(),
            pulse: LeaseClock::default(),
            restarts: Arc::default(),
            tallies: Tallies::new(plan.queues.iter().map(|queue| queue.name.as_str().into()).collect()),
            failures: Failures::new(plan.queues.len(), release.into()),
            reports: tokio::sync::Mutex::default(),
            scribe,
            condition: Mutex::default(),
            outage: Outage::new(broker.clone()),
            broker,
        }
    }

    /// For a test of one duty.
    #[cfg(test)]
    pub(crate) fn alone(client: &Client, queues: &[&str], settings: Settings) -> Arc<Self> {
        let plan = Plan {
            client: client.clone(),
            registry: Registry::empty(),
            environment: Arc::default(),
            queues: queues.iter().map(|queue| QueueConfig::from(*queue)).collect(),
            settings,
            middleware: Stack::default(),
            health: None,
            release: None,
            schedules: Vec::new(),
            limits: Limits::new(),
            groups: GroupRules::new(),
            aging: BTreeMap::new(),
            subscriptions: Vec::new(),
            #[cfg(feature = "outbox")]
            relays: Vec::new(),
        };
        Arc::new(Shared::new(&plan, WorkerInfo::default(), "alone"))
    }

    /// The task of a job in a queue. In that of a subscription it is the function for this type of event, or else a task that was enqueued there by name.
    pub(crate) fn known(&self, queue: &str, task: &str) -> Option<&Known> {
        self.subscribers.get(queue).and_then(|events| events.get(task)).or_else(|| self.tasks.get(task))
    }

    /// The broker has answered.
    pub(crate) fn heard(&self) {
        self.contact.set(now());
        self.outage.answered();
    }

    /// Notes how the broker is.
    pub(crate) fn note(&self, condition: Condition) {
        *self.condition.lock().unwrap_or_else(PoisonError::into_inner) = condition;
    }

    /// The condition of the broker at the last check.
    pub(crate) fn condition(&self) -> Condition {
        self.condition.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// Whether three beats have passed without an answer.
    pub(crate) fn is_isolated(&self) -> bool {
        self.contact.until().elapsed() > self.settings.beat() * 3
    }
}

/// Waits for the broker, starts everything, and ends with the worker.
pub(crate) async fn run(plan: Plan, mut stage: watch::Receiver<Stage>) -> Result<Stopped, WorkerError> {
    let broker = plan.client.broker().clone();
    let (info, release) = tokio::select! {
        info = identity::info(plan.release.clone(), plan.registry.names()) => info,
        // It has a stop request, or the sender of such requests is gone.
        _ = stage.wait_for(|stage| *stage > Stage::Running) => return Ok(Stopped::default()),
    };
    let shared = Arc::new(Shared::new(&plan, info, &release));
    let (events, received) = mpsc::unbounded_channel::<Event>();
    let (batches, dispatched) = mpsc::unbounded_channel();
    let over = CancellationToken::new();
    let duties = Supervisor::new(broker.clone(), over.clone(), shared.restarts.clone());
    #[cfg(feature = "outbox")]
    let is_over = over.clone();
    let guard = over.drop_guard();

    if let Some(address) = plan.health {
        metrics::install();
        let listening = http::listen(address).map_err(|error| WorkerError::Setup(vec![format!("health address `{address}`: {error}")]))?;
        duties.start({
            let shared = shared.clone();
            move || Http::new(shared.clone(), listening.try_clone())
        });
    }
    tokio::select! {
        reached = arrival::reach(&shared) => reached?,
        // It has a stop request, or the sender of such requests is gone.
        _ = stage.wait_for(|stage| *stage > Stage::Running) => return Ok(Stopped::default()),
    }
    tokio::select! {
        // No job is claimed before its limits are known.
        declared = arrival::declare_limits(&shared) => declared?,
        // It has a stop request, or the sender of such requests is gone.
        _ = stage.wait_for(|stage| *stage > Stage::Running) => return Ok(Stopped::default()),
    }
    arrival::tell_durability(&broker).await;
    shared.heard();
    shared.pulse.set(now());
    shared.reached.store(true, Ordering::Relaxed);
    duties.start({
        let shared = shared.clone();
        move || Reclaimer::new(shared.clone())
    });
    duties.start({
        let shared = shared.clone();
        move || Janitor::new(shared.clone())
    });
    duties.start({
        let shared = shared.clone();
        move || Operator::new(shared.clone())
    });
    duties.start({
        let shared = shared.clone();
        move || Monitor::new(shared.clone())
    });
    metrics::start(&duties, &shared);
    duties.start({
        let shared = shared.clone();
        move || Historian::new(shared.clone())
    });
    duties.start({
        let shared = shared.clone();
        move || Scribe::new(shared.clone())
    });
    duties.start({
        let shared = shared.clone();
        move || Declarer::new(shared.clone())
    });
    duties.start({
        let shared = shared.clone();
        move || Ticker::new(shared.clone())
    });
    duties.start({
        let (shared, events) = (shared.clone(), events.clone());
        move || Hints::new(shared.clone(), events.clone())
    });

    tokio::spawn(runner::dispatch(shared.clone(), dispatched, events.clone()));
    #[cfg(feature = "outbox")]
    let relays = crate::relays::Relays::start(&plan.client, shared.queues.first(), plan.relays, &shared.restarts, &is_over);
    let (ended, end) = oneshot::channel();
    drop(events);
    let pump = Pump::new(shared, plan.queues, received, batches, stage);
    broker.spawn(Box::pin(async move {
        let outcome = AssertUnwindSafe(pump.run()).catch_unwind().await;
        // Nobody listens when the worker's future was dropped.
        let _ = ended.send(outcome.map_err(|panic| WorkerError::Died(panic_text(panic))));
    }));
    let outcome = end.await;
    drop(guard);
    #[cfg(feature = "outbox")]
    relays.end().await;
    outcome.unwrap_or_else(|_| Err(WorkerError::Died("its broker's I/O thread has ended".to_owned())))
}

/// Counts a handler in and out.
pub(crate) fn count(counter: &AtomicUsize, by: isize) {
    if by > 0 {
        counter.fetch_add(by.unsigned_abs(), Ordering::Relaxed);
    } else {
        counter.fetch_sub(by.unsigned_abs(), Ordering::Relaxed);
    }
}
