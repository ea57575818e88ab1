//! The contract between this framework and what keeps the jobs.
//!
//! [`Broker`] is what running jobs needs; [`Inspect`] is what people need. Both speak of jobs, never of a backend, and
//! both are object-safe: everything above holds an `Arc<dyn Broker>`.
//!
//! # The lease protocol in short
//!
//! A **worker** here is one *lane*: whoever [registers](Broker::register) gets a name that was never used before, an
//! entry at the broker, and a **lease** that every [turn](Broker::turn) and every [extend](Broker::extend) renews. A turn
//! hands in what was finished and claims new jobs. Each claim stamps its jobs with a **tag**, the worker's name and a
//! claim number that only grows; a finish counts only while the stored tag is byte-equal to the delivery's. When a lease
//! runs out, a reclaimer [fences](Broker::fence) the worker (from then on all it hears is [`Error::Forgotten`](crate::Error::Forgotten)) and
//! [sweeps](Broker::sweep_fenced) its jobs back.
//!
//! # Requests are sent again until they are answered
//!
//! Turns and enqueues carry a sequence number. A request without an answer is sent again **unchanged**; the broker
//! recognises the number, applies nothing twice and gives the same answer. `Forgotten` means that the broker lost what it
//! told this worker or producer: register under a new name, and take everything held as lost.
//!
//! The rules have numbers, R1 to R13, by which they are referred to below and in the code: they are written down in
//! `docs/protocol.md` of the repository.

mod audit;
mod condition;
mod durability;
mod enqueue;
mod hints;
mod inspect;
mod lease;
mod party;
mod sweep;
mod turn;

use std::{fmt::Debug, sync::Arc, time::Duration};

use async_trait::async_trait;

pub use self::{audit::*, condition::*, durability::*, enqueue::*, hints::*, inspect::*, lease::*, party::*, sweep::*, turn::*};
use crate::{address::JobId, alarm::Alarm, error::Result, io::BoxFuture};

/// Most items of one request: jobs of an enqueue, finishes and claims of a turn, ids of a cancel.
pub const MAX_ITEMS: usize = 500;

/// Most jobs of `scheduled`, and as many of `retry`, that a turn promotes.
pub const DUE_ITEMS: usize = 200;

/// Most bytes of the envelopes and results of one request or answer (a single larger item travels alone).
pub const MAX_BYTES: usize = 1024 * 1024;

/// Most jobs that one call of [`Broker::sweep_fenced`] moves.
pub const RECLAIM_ITEMS: usize = 100;

/// What keeps jobs: Redis, SQLite, or a wrapper around another broker.
///
/// Every method is one atomic transition (or a bounded series of them, where said). Each has a deadline of its own and
/// never hangs: without an answer it returns [`Error::Ambiguous`](crate::Error::Ambiguous), and nothing is retried
/// inside, except what is known not to have run. Requests over [`MAX_ITEMS`] are a caller's mistake and are refused.
///
/// The trait is sealed until 1.0: methods will be added.
#[async_trait]
pub trait Broker: Inspect + Debug + Send + Sync + 'static {
    /// What this broker is and where.
    fn info(&self) -> BrokerInfo;

    /// Runs a task on the broker's own I/O thread: heartbeats, lanes, batching. It must never block.
    fn spawn(&self, task: BoxFuture<'static, ()>);

    /// A timer for a task on that thread; called there. By default it is as exact as the runtime's clock.
    fn alarm(&self) -> Alarm {
        Alarm::default()
    }

    /// Reaches the broker and checks what must hold before work starts: version, credentials, settings that would lose
    /// jobs (an eviction policy), schema.
    ///
    /// # Errors
    /// One that says what to change; [`Error::Unavailable`](crate::Error::Unavailable) when it cannot be reached.
    async fn check(&self) -> Result<()>;

    /// Gives a worker lane or a producer its name (R1). Not idempotent: a duplicate leaves a name that nobody uses and
    /// that is pruned when its lease ends. Also writes the queue into the registry of queues.
    async fn register(&self, request: &Register) -> Result<PartyName>;

    /// Stores jobs: → `ready`, or `scheduled` when they have a delay (R12). One answer per job, in order.
    ///
    /// A replay (`seq` = last) gives the stored answers and writes nothing. A given id that exists is answered, not stored.
    /// This is called on the application's own threads, too, in whatever runtime they have or in none.
    ///
    /// # Errors
    /// `Forgotten` when the producer is unknown, `Old` when `seq` is below the last, `BrokerFull` when nothing was stored.
    async fn enqueue(&self, request: &Enqueue) -> Result<Vec<Enqueued>>;

    /// The same, and then waits until the jobs are as safe as was asked for, or for two seconds. Says how safe they are.
    ///
    /// # Errors
    /// Those of [`enqueue`](Self::enqueue). Less safety than was asked for is no error.
    async fn enqueue_confirmed(&self, request: &Enqueue, confirm: &Confirm) -> Result<(Vec<Enqueued>, Confirmed)> {
        let _ = confirm;
        let answers = self.enqueue(request).await?;
        // The jobs are stored: whatever goes wrong with the question, this is no error.
        let durability = self.durability().await.unwrap_or(Durability::Volatile);
        Ok((answers, Confirmed { durability, replicas: 0 }))
    }

    /// What acknowledged jobs survive, at least: a server that does not tell may keep more.
    async fn durability(&self) -> Result<Durability> {
        Ok(Durability::Volatile)
    }

    /// What room there is, and whether new jobs are refused. A worker asks with its beats, people with `status` and `doctor`;
    /// it is no part of any job. A broker that cannot tell answers [`Condition::default`].
    async fn condition(&self) -> Result<Condition> {
        Ok(Condition::default())
    }

    /// Hands in finishes, then promotes what is due and claims up to [`Turn::claim`] jobs, in one transition (R2 to R5).
    ///
    /// A finish whose tag no longer stands is stale: it changes nothing and its position is in [`TurnAnswer::stale`].
    /// A replay (`seq` = last) writes nothing and gives the same stale positions and deliveries; a delivery whose tag no
    /// longer stands comes back [`void`](Delivery::void).
    ///
    /// # Errors
    /// `Forgotten` when the worker has no entry, or `seq` is more than one above the last; `Old` when it is below.
    async fn turn(&self, turn: &Turn) -> Result<TurnAnswer>;

    /// Whether a queue has jobs that wait for anything, or for a worker: without any, a turn would find nothing to claim. A
    /// broker that cannot tell for much less than a turn says `true`.
    async fn look(&self, queue: &str) -> Result<bool> {
        let _ = queue;
        Ok(true)
    }

    /// Renews the leases of several lanes, of any queues (R6). Never creates an entry. Works when the broker is full.
    ///
    /// One answer per lane, in order: `Forgotten` when the entry is gone or older than the last answered turn.
    async fn extend(&self, lanes: &[Extend]) -> Vec<Result<Extended>>;

    /// The lanes of a queue whose lease has run out, and those whose deadline lies further ahead than their lease is long (R7, look
    /// one), at most `limit` of each; and how many are fenced already.
    async fn suspects(&self, queue: &str, limit: usize) -> Result<Suspects>;

    /// Takes away the entry of each lane whose deadline is still exactly the one that was seen, and is past or lies further ahead
    /// than the lease is long (R7, look two).
    /// Answers which were fenced, in order. At most [`MAX_ITEMS`].
    async fn fence(&self, queue: &str, suspects: &[Suspect]) -> Result<Vec<bool>>;

    /// Takes the jobs of every fenced lane back in bounded steps: → `retry`, `ready` or `dead` by the crash rule of
    /// [`CrashRule`] (R7, sweep). Forgets a fenced name only after one whole scan that began after its fencing. Any
    /// reclaimer can go on with what another left.
    async fn sweep_fenced(&self, queue: &str, rule: &CrashRule) -> Result<Reclaimed>;

    /// Takes jobs out of whatever they wait in or run under: → `cancelled` (R13). One answer per id, in order. The
    /// worker of an active job hears of it with its next beat.
    async fn cancel(&self, queue: &str, ids: &[JobId]) -> Result<Vec<CancelAnswer>>;

    /// Puts dead jobs back: `dead` → `ready`, attempts, crashes and snoozes cleared. One answer per id, in order.
    async fn requeue(&self, queue: &str, ids: &[JobId]) -> Result<Vec<bool>>;

    /// One bounded round of housekeeping: idle producers, tombstones of given ids, records past their retention.
    async fn sweep(&self, queue: &str, limits: &SweepLimits) -> Result<Swept>;

    /// Announcements that `ready` of a queue is no longer empty, or that a job has become the earliest to be due. They
    /// may be lost or spurious: a poll is the truth.
    fn hints(&self, queue: &str) -> Hints;

    #[doc(hidden)]
    fn __sealed(&self, _: sealed::Seal);
}

#[doc(hidden)]
pub mod sealed {
    /// Keeps [`Broker`](super::Broker) ours to change; naming it is a promise to follow.
    #[derive(Debug)]
    pub struct Seal;
}

/// What a broker is, for people.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct BrokerInfo {
    /// `redis` or `sqlite`.
    pub kind: &'static str,
    /// The URL without secrets, or the absolute path of the file.
    pub location: String,
}

impl BrokerInfo {
    /// Describes a broker.
    pub fn new(kind: &'static str, location: impl Into<String>) -> Self {
        BrokerInfo { kind, location: location.into() }
    }
}

/// A shared broker, as client, worker and inspector hold it.
pub type DynBroker = Arc<dyn Broker>;

/// How long a call to a broker may take before it counts as unanswered.
pub const CALL_DEADLINE: Duration = Duration::from_secs(5);
