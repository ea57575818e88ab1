//! Calls that fail because a test has asked for it.

use std::{
    collections::VecDeque,
    sync::{Arc, Mutex, PoisonError},
};

use queue_core::{
    Error, JobId, Result,
    broker::{Broker, DynBroker, StoredJob, Wrapper},
};
use tokio::sync::Notify;

/// How a call fails: see [`TestQueue::fail_next`](crate::TestQueue::fail_next).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Fault {
    /// The broker cannot be reached, and the call is not carried out: [`Error::Unavailable`].
    Unavailable,
    /// The next enqueue finds no room, and nothing is stored: [`Error::BrokerFull`].
    Full,
    /// The next enqueue is carried out, and its answer is lost: [`Error::Unknown`].
    Unknown,
}

/// The broker of the application. The test's own calls go around it.
#[derive(Debug)]
pub(crate) struct Faulty {
    inner: DynBroker,
    next: Mutex<VecDeque<Fault>>,
    /// Somebody waits for the end of a job.
    pub(crate) waits: Arc<Notify>,
}

impl Faulty {
    pub(crate) fn new(inner: DynBroker) -> Arc<Self> {
        Arc::new(Faulty { inner, next: Mutex::default(), waits: Arc::default() })
    }

    pub(crate) fn fail_next(&self, fault: Fault) {
        self.next.lock().unwrap_or_else(PoisonError::into_inner).push_back(fault);
    }

    fn take(&self, verb: &str) -> Option<Fault> {
        let concerns = |fault: &Fault| *fault == Fault::Unavailable || matches!(verb, "enqueue" | "enqueue_confirmed");
        let mut next = self.next.lock().unwrap_or_else(PoisonError::into_inner);
        if next.front().is_some_and(concerns) { next.pop_front() } else { None }
    }
}

impl Wrapper for Faulty {
    fn inner(&self) -> &dyn Broker {
        &*self.inner
    }

    async fn around<T: Send>(&self, verb: &'static str, call: impl Future<Output = Result<T>> + Send) -> Result<T> {
        let broker = || self.inner.info().location;
        match self.take(verb) {
            None => call.await,
            Some(Fault::Unavailable) => Err(Error::unavailable(broker(), "`fail_next` makes this call fail").injected()),
            Some(Fault::Full) => Err(Error::BrokerFull { broker: broker(), problem: "`fail_next` makes this call fail".to_owned() }),
            Some(Fault::Unknown) => {
                call.await?;
                Err(Error::ambiguous(broker(), "`fail_next` drops the answer").injected())
            }
        }
    }

    async fn watch(&self, queue: &str, id: &JobId) -> Result<Option<StoredJob>> {
        self.waits.notify_one();
        self.around("watch", self.inner.watch(queue, id)).await
    }
}
