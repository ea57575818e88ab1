//! Puts the parts of a running worker together.

use std::{
    net::SocketAddr,
    panic::AssertUnwindSafe,
    sync::{Arc, atomic::Ordering},
};

use futures_util::FutureExt;
use queue_core::{
    __private::{Environment, Stack, panic_text},
    Client, Registry,
};
use tokio::sync::{mpsc, oneshot, watch};
use tokio_util::sync::CancellationToken;

#[cfg(feature = "metrics")]
use crate::duties::gauges::Gauges;
#[cfg(feature = "outbox")]
use crate::duties::relays;
use crate::{
    application::Application,
    arrival,
    config::{QueueConfig, Settings},
    connection::Connection,
    declarations::Declarations,
    duties::{
        Restarts, Supervisor,
        declarer::Declarer,
        hints::Hints,
        historian::Historian,
        http::{self, Health, Http},
        janitor::Janitor,
        monitor::Monitor,
        operator::Operator,
        reclaimer::Reclaimer,
        scribe::Scribe,
        ticker::Ticker,
    },
    error::WorkerError,
    history::History,
    identity::Identity,
    messages::Event,
    metrics,
    progress::PendingProgress,
    pump::Pump,
    queues::queues,
    run as runner,
    shared::Shared,
    shutdown::{Stage, Stopped},
    status::Status,
    time::now,
};

/// The configuration of a worker.
pub(crate) struct Plan {
    pub(crate) client: Client,
    pub(crate) registry: Registry,
    pub(crate) environment: Environment,
    pub(crate) queues: Vec<QueueConfig>,
    pub(crate) settings: Settings,
    pub(crate) middleware: Stack,
    pub(crate) health: Option<SocketAddr>,
    /// The configured release.
    pub(crate) release: Option<String>,
    pub(crate) declarations: Arc<Declarations>,
    /// The relays of outboxes.
    #[cfg(feature = "outbox")]
    pub(crate) relays: Vec<queue_outbox::Relay>,
}

impl Plan {
    pub(crate) async fn identity(&self) -> Identity {
        Identity::new(self.release.clone(), self.registry.names()).await
    }

    pub(crate) fn shared(&self, identity: Identity) -> Arc<Shared> {
        let (broker, settings) = (self.client.broker().clone(), self.settings.clone());
        let queues = queues(self.queues.iter().map(|queue| &*queue.name));
        let (progress, reported) = PendingProgress::new();
        #[cfg(feature = "outbox")]
        let endings = queue_outbox::Relay::endings(&self.relays);
        #[cfg(not(feature = "outbox"))]
        let endings = None;
        Arc::new(Shared {
            application: Application::new(&self.registry, self.environment.with_reporting(reported), self.middleware.clone(), endings),
            history: History::new(broker.clone(), identity.process, identity.release.clone(), queues.clone()),
            connection: Connection::new(broker, settings.heartbeat_interval()),
            status: Arc::new(Status::default()),
            progress: Arc::new(progress),
            identity,
            settings,
            queues,
        })
    }
}

/// Waits for the broker, starts everything, and ends with the worker.
pub(crate) async fn run(plan: Plan, mut stage: watch::Receiver<Stage>) -> Result<Stopped, WorkerError> {
    let broker = plan.client.broker().clone();
    let identity = tokio::select! {
        identity = plan.identity() => identity,
        // The worker has a stop request, or the sender of such requests was dropped.
        _ = stage.wait_for(|stage| *stage > Stage::Running) => return Ok(Stopped::default()),
    };
    let shared = plan.shared(identity);
    let (events, received) = mpsc::unbounded_channel::<Event>();
    let (batches, dispatched) = mpsc::unbounded_channel();
    let over = CancellationToken::new();
    let restarts = Arc::<Restarts>::default();
    let duties = Supervisor::new(broker.clone(), over.clone(), restarts.clone());
    #[cfg(feature = "outbox")]
    let is_over = over.clone();
    let guard = over.drop_guard();

    if let Some(address) = plan.health {
        metrics::install();
        let listening = http::listen(address).map_err(|error| WorkerError::Setup(vec![format!("health address `{address}`: {error}")]))?;
        let health = Health {
            connection: shared.connection.clone(),
            queues: shared.queues.clone(),
            status: shared.status.clone(),
            restarts: restarts.clone(),
            concurrency: shared.settings.concurrency,
        };
        let health = Arc::new(health);
        duties.start(&health.clone(), move |_| Http::new(health.clone(), listening.try_clone()));
    }
    tokio::select! {
        reached = arrival::reach(&shared.connection) => reached?,
        // The worker has a stop request, or the sender of such requests was dropped.
        _ = stage.wait_for(|stage| *stage > Stage::Running) => return Ok(Stopped::default()),
    }
    let release = shared.identity.info.release();
    tokio::select! {
        // No job is claimed before its limits are known.
        declared = arrival::declare_limits(&broker, &release, &plan.declarations) => declared?,
        // The worker has a stop request, or the sender of such requests was dropped.
        _ = stage.wait_for(|stage| *stage > Stage::Running) => return Ok(Stopped::default()),
    }
    arrival::log_durability(&broker).await;
    shared.connection.answered();
    shared.status.pulse.set(now());
    shared.status.reached.store(true, Ordering::Relaxed);
    start_duties(&duties, &shared, &plan.declarations, &events);

    tokio::spawn(runner::dispatch(shared.clone(), dispatched, events.clone()));
    #[cfg(feature = "outbox")]
    let relays = relays::Relays::start(&plan.client, shared.queues.first().map(|queue| &queue.name), plan.relays, &restarts, &is_over);
    let (ended, end) = oneshot::channel();
    drop(events);
    let pump = Pump::new(shared, plan.queues, received, batches, stage);
    broker.spawn(Box::pin(async move {
        let outcome = AssertUnwindSafe(pump.run()).catch_unwind().await;
        // The receiver is dropped together with the worker's future.
        let _ = ended.send(outcome.map_err(|panic| WorkerError::Died(panic_text(panic))));
    }));
    let outcome = end.await;
    drop(guard);
    #[cfg(feature = "outbox")]
    relays.end().await;
    outcome.unwrap_or_else(|_| Err(WorkerError::Died("its broker's I/O thread has ended".to_owned())))
}

fn start_duties(duties: &Supervisor, shared: &Arc<Shared>, declarations: &Arc<Declarations>, events: &mpsc::UnboundedSender<Event>) {
    let broker = |shared: &Shared| shared.connection.broker.clone();
    let heartbeat = shared.settings.heartbeat_interval();
    duties
        .start(shared, |shared| Reclaimer::new(shared.connection.clone(), shared.queues.clone(), shared.history.clone(), &shared.settings));
    duties.start(shared, move |shared| Janitor::new(broker(shared), shared.queues.clone(), shared.history.clone(), shared.settings.sweep));
    duties.start(shared, move |shared| Operator::new(broker(shared), shared.queues.clone()));
    duties.start(shared, move |shared| Monitor::new(shared.connection.clone(), heartbeat));
    #[cfg(feature = "metrics")]
    {
        metrics::describe(&shared.queues);
        let declarations = declarations.clone();
        duties.start(shared, move |shared| Gauges::new(shared.connection.clone(), shared.queues.clone(), declarations.clone()));
    }
    duties.start(shared, move |shared| Historian::new(shared.history.clone(), heartbeat));
    duties.start(shared, move |shared| Scribe::new(broker(shared), shared.progress.clone()));
    let declarations = declarations.clone();
    duties.start(shared, move |shared| {
        Declarer::new(broker(shared), shared.identity.info.release(), declarations.clone(), shared.queues.clone())
    });
    duties.start(shared, move |shared| Ticker::new(broker(shared), shared.queues.clone()));
    let events = events.clone();
    duties.start(shared, move |shared| Hints::new(broker(shared), shared.queues.clone(), events.clone()));
}
