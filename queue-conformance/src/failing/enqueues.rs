//! What befalls the enqueues of a [`FailingBroker`](super::FailingBroker), one by one, and how they
//! looked as they came.

use std::{
    collections::VecDeque,
    fmt,
    sync::{Mutex, PoisonError},
    thread::{self, ThreadId},
};

use queue_core::{
    Error, JobId, Result,
    broker::{Enqueue, Enqueued},
};
use tokio::sync::{Semaphore, watch};

use crate::patience::wait;

/// What happens to an enqueue.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum EnqueueFault {
    /// It is carried out and answered.
    None,
    /// The request is lost on its way.
    LostRequest,
    /// It is carried out and the answer is lost.
    LostAnswer,
    /// As `LostAnswer`; when it is sent again there is no room for it, so that its fate stays
    /// unknown.
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
pub struct Seen {
    /// Who sent it.
    pub producer: String,
    /// Its number.
    pub seq: u64,
    /// The jobs in it.
    pub ids: Vec<JobId>,
}

/// The plan for the enqueues to come, and the journal of those that came.
pub struct Enqueues {
    planned: Mutex<VecDeque<EnqueueFault>>,
    /// What befalls those beyond the planned ones.
    always: Mutex<EnqueueFault>,
    seen: watch::Sender<Vec<Seen>>,
    /// Where they came from.
    threads: Mutex<Vec<ThreadId>>,
    /// Each enqueue takes one; so a test can hold them up.
    gate: Semaphore,
}

const OPEN: usize = 1_000_000;

impl Default for Enqueues {
    fn default() -> Self {
        Enqueues {
            planned: Mutex::default(),
            always: Mutex::new(EnqueueFault::None),
            seen: watch::Sender::default(),
            threads: Mutex::default(),
            gate: Semaphore::new(OPEN),
        }
    }
}

impl fmt::Debug for Enqueues {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Enqueues").field("seen", &self.seen.borrow().len()).finish_non_exhaustive()
    }
}

impl Enqueues {
    /// Lets this happen to the next ones, in order.
    pub fn plan(&self, faults: impl IntoIterator<Item = EnqueueFault>) {
        self.planned.lock().unwrap_or_else(PoisonError::into_inner).extend(faults);
    }

    /// Lets this happen to all that are not planned for.
    pub fn always(&self, fault: EnqueueFault) {
        *self.always.lock().unwrap_or_else(PoisonError::into_inner) = fault;
    }

    /// Holds them up from now on.
    pub fn close(&self) {
        self.gate.forget_permits(OPEN);
    }

    /// Lets them go on.
    pub fn open(&self) {
        self.gate.add_permits(OPEN);
    }

    /// All that came so far.
    pub fn seen(&self) -> Vec<Seen> {
        self.seen.borrow().clone()
    }

    /// The threads on which they came.
    pub fn threads(&self) -> Vec<ThreadId> {
        self.threads.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// Waits until so many have come.
    ///
    /// # Panics
    /// When they have not come in time.
    pub async fn has_seen(&self, enqueues: usize) {
        let mut seen = self.seen.subscribe();
        let arrived = seen.wait_for(|seen| seen.len() >= enqueues);
        let arrived = wait(format!("{enqueues} enqueues")).seeing(|| format!("{:?}", self.seen())).end_of(arrived).await;
        drop(arrived.expect("the sender lives as long as this"));
    }

    /// Carries one out, or not.
    pub(super) async fn pass(
        &self,
        broker: &str,
        request: &Enqueue,
        carried_out: impl Future<Output = Result<Vec<Enqueued>>> + Send,
    ) -> Result<Vec<Enqueued>> {
        let ids = request.jobs.iter().map(|job| job.id.clone()).collect();
        let seen = Seen { producer: request.producer.to_string(), seq: request.seq, ids };
        self.threads.lock().unwrap_or_else(PoisonError::into_inner).push(thread::current().id());
        let again = self.seen.borrow().contains(&seen);
        self.seen.send_modify(|all| all.push(seen));
        let _pass = self.gate.acquire().await.expect("the gate is never closed for good");
        let broker = broker.to_owned();
        let lost = || Error::ambiguous(&broker, "1ms have passed");
        let full = || Error::BrokerFull { broker: broker.clone(), problem: "no room".to_owned() };
        match self.next() {
            EnqueueFault::Cut | EnqueueFault::CutBefore if again => Err(full()),
            EnqueueFault::None => carried_out.await,
            EnqueueFault::LostRequest | EnqueueFault::CutBefore => Err(lost()),
            EnqueueFault::LostAnswer | EnqueueFault::Cut => {
                carried_out.await?;
                Err(lost())
            }
            EnqueueFault::Unavailable => Err(Error::unavailable(broker, "it is away")),
            EnqueueFault::Full => Err(full()),
            EnqueueFault::Forgotten => Err(Error::Forgotten(request.producer.to_string())),
            EnqueueFault::Torn => carried_out.await.map(|mut answers| {
                answers.pop();
                answers
            }),
        }
    }

    fn next(&self) -> EnqueueFault {
        let planned = self.planned.lock().unwrap_or_else(PoisonError::into_inner).pop_front();
        planned.unwrap_or_else(|| *self.always.lock().unwrap_or_else(PoisonError::into_inner))
    }
}
