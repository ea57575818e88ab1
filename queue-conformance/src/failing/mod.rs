//! A broker that fails on demand, around a real one: for every path on which storage is down, and
//! as the example of a broker of somebody else's.

mod enqueues;

use std::{
    fmt,
    sync::{
        Arc,
        atomic::{AtomicU32, Ordering},
    },
};

use queue_core::{
    Error, Result,
    broker::{
        Broker, DynBroker, Enqueue, Enqueued, Extend, Extended, OverdueLanes, Party, Register, Registered, SweepLimits, Swept, Turn,
        TurnAnswer, Wrapper,
    },
};
use tokio::sync::watch;

pub use self::enqueues::{EnqueueFault, Enqueues, Seen};

/// What happens to a call.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fault {
    /// It never reaches the broker: [`Error::Unavailable`].
    RequestLost,
    /// It is carried out, and nobody hears of it: [`Error::Ambiguous`].
    ReplyLost,
    /// The broker has no room: [`Error::BrokerFull`].
    Full,
    /// The broker has forgotten the lane whose turn or heartbeat it is: [`Error::Forgotten`]. Its
    /// jobs stay active there.
    Forgotten,
    /// It panics, if it is one of those with which a worker keeps a queue in order.
    Panic,
}

/// A broker whose next calls can be made to fail.
pub struct FailingBroker {
    inner: DynBroker,
    request_lost: AtomicU32,
    reply_lost: AtomicU32,
    full: AtomicU32,
    forgotten: AtomicU32,
    panic: AtomicU32,
    failed: AtomicU32,
    /// How the names of the queues begin whose turns and names are held, and how many are.
    held: watch::Sender<Option<&'static str>>,
    holding: AtomicU32,
    registered: AtomicU32,
    /// What befalls enqueues, one by one.
    pub enqueues: Enqueues,
}

impl FailingBroker {
    /// Wraps a broker. Nothing fails yet.
    pub fn new(inner: DynBroker) -> Arc<FailingBroker> {
        Arc::new(FailingBroker {
            inner,
            request_lost: AtomicU32::new(0),
            reply_lost: AtomicU32::new(0),
            full: AtomicU32::new(0),
            forgotten: AtomicU32::new(0),
            panic: AtomicU32::new(0),
            failed: AtomicU32::new(0),
            held: watch::Sender::new(None),
            holding: AtomicU32::new(0),
            registered: AtomicU32::new(0),
            enqueues: Enqueues::default(),
        })
    }

    /// The broker itself, whose calls do not fail.
    pub fn inner(&self) -> DynBroker {
        self.inner.clone()
    }

    /// Lets the next `calls` fail in this way; zero heals.
    pub fn fail(&self, fault: Fault, calls: u32) {
        self.left(fault).store(calls, Ordering::SeqCst);
    }

    /// Keeps the turns of queues whose names begin so, and lets no worker register there, as a
    /// server does that stands still; `None` lets them go on.
    pub fn hold(&self, queues: Option<&'static str>) {
        self.held.send_replace(queues);
    }

    /// How many requests are kept.
    pub fn holding(&self) -> u32 {
        self.holding.load(Ordering::SeqCst)
    }

    /// How many names were asked for.
    pub fn registered(&self) -> u32 {
        self.registered.load(Ordering::SeqCst)
    }

    /// How many calls have failed so far: a test can wait until somebody has tried.
    pub fn failed(&self) -> u32 {
        self.failed.load(Ordering::SeqCst)
    }

    fn left(&self, fault: Fault) -> &AtomicU32 {
        match fault {
            Fault::RequestLost => &self.request_lost,
            Fault::ReplyLost => &self.reply_lost,
            Fault::Full => &self.full,
            Fault::Forgotten => &self.forgotten,
            Fault::Panic => &self.panic,
        }
    }

    /// Takes one failure of this kind, if one is left.
    fn take(&self, fault: Fault) -> bool {
        let taken = self.left(fault).fetch_update(Ordering::SeqCst, Ordering::SeqCst, |left| left.checked_sub(1)).is_ok();
        self.failed.fetch_add(u32::from(taken), Ordering::SeqCst);
        taken
    }

    /// Waits for as long as requests about this queue are kept.
    async fn held(&self, queue: &str) {
        let mut held = self.held.subscribe();
        let keeps = |held: &Option<&'static str>| held.is_some_and(|held| queue.starts_with(held));
        if keeps(&held.borrow()) {
            self.holding.fetch_add(1, Ordering::SeqCst);
            let _ = held.wait_for(|held| !keeps(held)).await;
            self.holding.fetch_sub(1, Ordering::SeqCst);
        }
    }

    fn location(&self) -> String {
        self.inner.info().location
    }

    /// Fails before the call.
    fn before(&self) -> Result<()> {
        if self.take(Fault::RequestLost) {
            return Err(Error::unavailable(self.location(), "it was made to fail"));
        }
        Ok(())
    }

    /// Fails after the call.
    fn after<T>(&self, answer: Result<T>) -> Result<T> {
        if self.take(Fault::ReplyLost) {
            return Err(Error::ambiguous(self.location(), "its answer was lost"));
        }
        answer
    }
}

impl fmt::Debug for FailingBroker {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("FailingBroker").field("inner", &self.inner).finish_non_exhaustive()
    }
}

impl Wrapper for FailingBroker {
    fn inner(&self) -> &dyn Broker {
        &*self.inner
    }

    async fn around<T: Send>(&self, _: &'static str, call: impl Future<Output = Result<T>> + Send) -> Result<T> {
        self.before()?;
        self.after(call.await)
    }

    async fn register(&self, request: &Register) -> Result<Registered> {
        self.registered.fetch_add(1, Ordering::SeqCst);
        if matches!(request.party, Party::Lane { .. }) {
            self.held(&request.queue).await;
        }
        self.around("register", self.inner.register(request)).await
    }

    async fn enqueue(&self, request: &Enqueue) -> Result<Vec<Enqueued>> {
        if self.take(Fault::Full) {
            return Err(Error::BrokerFull { broker: self.location(), problem: "it was made to be full".to_owned() });
        }
        self.around("enqueue", self.enqueues.pass(&self.location(), request, self.inner.enqueue(request))).await
    }

    async fn turn(&self, turn: &Turn) -> Result<TurnAnswer> {
        if self.take(Fault::Forgotten) {
            return Err(Error::Forgotten(turn.lane.to_string()));
        }
        self.held(&turn.queue).await;
        self.around("turn", self.inner.turn(turn)).await
    }

    async fn extend(&self, lanes: &[Extend]) -> Vec<Result<Extended>> {
        if self.before().is_err() {
            return lanes.iter().map(|_| Err(Error::unavailable(self.location(), "it was made to fail"))).collect();
        }
        let mut answers = self.inner.extend(lanes).await;
        for (answer, lane) in answers.iter_mut().zip(lanes) {
            if self.take(Fault::Forgotten) {
                *answer = Err(Error::Forgotten(lane.lane.to_string()));
            }
        }
        answers
    }

    async fn overdue(&self, queue: &str, skip: usize, limit: usize) -> Result<OverdueLanes> {
        assert!(!self.take(Fault::Panic), "it was made to panic");
        self.around("overdue", self.inner.overdue(queue, skip, limit)).await
    }

    async fn sweep(&self, queue: &str, limits: &SweepLimits) -> Result<Swept> {
        assert!(!self.take(Fault::Panic), "it was made to panic");
        self.around("sweep", self.inner.sweep(queue, limits)).await
    }
}
