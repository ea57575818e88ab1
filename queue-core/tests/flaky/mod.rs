//! A broker that fails on demand, around a real one.

use std::{
    collections::VecDeque,
    sync::{Arc, Mutex},
    time::Duration,
};

use async_trait::async_trait;
use queue_core::{
    BoxFuture, Error, JobId, Result,
    broker::{
        Broker, BrokerInfo, CancelAnswer, CrashRule, DynBroker, Enqueue, Enqueued, Extend, Extended, Hints, Inspect, JobRecord, Page,
        PartyName, QueueStats, Reclaimed, Register, State, Suspect, Suspects, SweepLimits, Swept, Turn, TurnAnswer, sealed,
    },
    sqlite::SqliteBroker,
};
use tokio::sync::{Semaphore, watch};

/// What happens to the next enqueue.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Fault {
    /// It is carried out and answered.
    None,
    /// The request is lost on its way.
    LostRequest,
    /// It is carried out and the answer is lost.
    LostAnswer,
    /// As `LostAnswer`; when it is sent again there is no room for it, so that its fate stays unknown.
    Cut,
    /// As `LostRequest`, and then as `Cut`.
    CutBefore,
    /// The broker cannot be reached.
    Unavailable,
    /// It has no room.
    Full,
    /// It has forgotten who asks.
    Forgotten,
    /// It says fewer answers than there were jobs.
    Torn,
}

/// One enqueue as it arrived, whatever became of it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Seen {
    pub(crate) producer: String,
    pub(crate) seq: u64,
    pub(crate) ids: Vec<JobId>,
}

/// SQLite in memory, with faults in its enqueues.
#[derive(Debug)]
pub(crate) struct Flaky {
    real: Arc<SqliteBroker>,
    faults: Mutex<VecDeque<Fault>>,
    /// What befalls enqueues beyond the planned ones.
    always: Mutex<Fault>,
    seen: watch::Sender<Vec<Seen>>,
    registered: Mutex<usize>,
    /// Each enqueue takes one; so a test can hold them up.
    gate: Semaphore,
}

const OPEN: usize = 1_000_000;

impl Flaky {
    pub(crate) fn start() -> Arc<Flaky> {
        let real = SqliteBroker::open("sqlite::memory:").expect("SQLite in memory can be opened");
        Arc::new(Flaky {
            real,
            faults: Mutex::default(),
            always: Mutex::new(Fault::None),
            seen: watch::Sender::default(),
            registered: Mutex::default(),
            gate: Semaphore::new(OPEN),
        })
    }

    pub(crate) fn plan(&self, faults: impl IntoIterator<Item = Fault>) {
        self.faults.lock().unwrap().extend(faults);
    }

    pub(crate) fn always(&self, fault: Fault) {
        *self.always.lock().unwrap() = fault;
    }

    /// Holds up the enqueues from now on.
    pub(crate) fn close(&self) {
        self.gate.forget_permits(OPEN);
    }

    pub(crate) fn open(&self) {
        self.gate.add_permits(OPEN);
    }

    pub(crate) fn seen(&self) -> Vec<Seen> {
        self.seen.borrow().clone()
    }

    pub(crate) fn registered(&self) -> usize {
        *self.registered.lock().unwrap()
    }

    /// Waits until so many enqueues have arrived.
    pub(crate) async fn has_seen(&self, enqueues: usize) {
        let mut seen = self.seen.subscribe();
        let arrived = seen.wait_for(|seen| seen.len() >= enqueues);
        let arrived = tokio::time::timeout(Duration::from_secs(10), arrived).await.expect("the enqueues arrive");
        drop(arrived.expect("the sender lives as long as this"));
    }

    fn ambiguous() -> Error {
        Error::Ambiguous { broker: "flaky".into(), after: Duration::from_millis(1) }
    }
}

#[async_trait]
impl Broker for Flaky {
    fn info(&self) -> BrokerInfo {
        BrokerInfo::new("flaky", "flaky")
    }

    fn spawn(&self, task: BoxFuture<'static, ()>) {
        self.real.spawn(task);
    }

    async fn check(&self) -> Result<()> {
        self.real.check().await
    }

    async fn register(&self, request: &Register) -> Result<PartyName> {
        *self.registered.lock().unwrap() += 1;
        self.real.register(request).await
    }

    async fn enqueue(&self, request: &Enqueue) -> Result<Vec<Enqueued>> {
        let ids = request.jobs.iter().map(|job| job.id.clone()).collect();
        let seen = Seen { producer: request.producer.to_string(), seq: request.seq, ids };
        let again = self.seen.borrow().contains(&seen);
        self.seen.send_modify(|all| all.push(seen));
        let _pass = self.gate.acquire().await.expect("the gate is never closed for good");
        let planned = self.faults.lock().unwrap().pop_front();
        let fault = planned.unwrap_or_else(|| *self.always.lock().unwrap());
        match fault {
            Fault::Cut | Fault::CutBefore if again => Err(Error::BrokerFull { broker: "flaky".into(), problem: "no room".into() }),
            Fault::None => self.real.enqueue(request).await,
            Fault::LostRequest | Fault::CutBefore => Err(Self::ambiguous()),
            Fault::LostAnswer | Fault::Cut => {
                self.real.enqueue(request).await?;
                Err(Self::ambiguous())
            }
            Fault::Unavailable => Err(Error::Unavailable { broker: "flaky".into(), problem: "it is away".into() }),
            Fault::Full => Err(Error::BrokerFull { broker: "flaky".into(), problem: "no room".into() }),
            Fault::Forgotten => Err(Error::Forgotten(request.producer.to_string())),
            Fault::Torn => self.real.enqueue(request).await.map(|mut answers| {
                answers.pop();
                answers
            }),
        }
    }

    async fn turn(&self, turn: &Turn) -> Result<TurnAnswer> {
        self.real.turn(turn).await
    }

    async fn extend(&self, lanes: &[Extend]) -> Vec<Result<Extended>> {
        self.real.extend(lanes).await
    }

    async fn suspects(&self, queue: &str, limit: usize) -> Result<Suspects> {
        self.real.suspects(queue, limit).await
    }

    async fn fence(&self, queue: &str, suspects: &[Suspect]) -> Result<Vec<bool>> {
        self.real.fence(queue, suspects).await
    }

    async fn sweep_fenced(&self, queue: &str, rule: &CrashRule) -> Result<Reclaimed> {
        self.real.sweep_fenced(queue, rule).await
    }

    async fn cancel(&self, queue: &str, ids: &[JobId]) -> Result<Vec<CancelAnswer>> {
        self.real.cancel(queue, ids).await
    }

    async fn requeue(&self, queue: &str, ids: &[JobId]) -> Result<Vec<bool>> {
        self.real.requeue(queue, ids).await
    }

    async fn sweep(&self, queue: &str, limits: &SweepLimits) -> Result<Swept> {
        self.real.sweep(queue, limits).await
    }

    fn hints(&self, queue: &str) -> Hints {
        self.real.hints(queue)
    }

    fn __sealed(&self, _: sealed::Seal) {}
}

#[async_trait]
impl Inspect for Flaky {
    async fn queues(&self) -> Result<Vec<String>> {
        self.real.queues().await
    }

    async fn stats(&self, queue: &str) -> Result<QueueStats> {
        self.real.stats(queue).await
    }

    async fn list(&self, queue: &str, state: State, offset: u64, limit: usize) -> Result<Page> {
        self.real.list(queue, state, offset, limit).await
    }

    async fn show(&self, queue: &str, id: &JobId) -> Result<Option<JobRecord>> {
        self.real.show(queue, id).await
    }

    async fn delete(&self, queue: &str, ids: &[JobId]) -> Result<Vec<bool>> {
        self.real.delete(queue, ids).await
    }

    async fn set_paused(&self, queue: &str, paused: bool) -> Result<()> {
        self.real.set_paused(queue, paused).await
    }
}

/// A client of it that tries for so long.
pub(crate) fn client(broker: &Arc<Flaky>, deadline: Duration) -> queue_core::Client {
    let broker: DynBroker = broker.clone();
    queue_core::Client::with_broker(broker).with_deadline(deadline)
}
