//! The interface between this framework and the store of the jobs, for authors of a broker or of a
//! wrapper around one. It is not stable: it may change in any release before 1.0. The types that
//! applications use are at the root of this crate.
//!
//! [`Broker`] has the methods for workers and producers, [`Inspect`] those for operators. Neither
//! contains a backend type, and both are object-safe: all other code holds an `Arc<dyn Broker>`.
//!
//! # The lease protocol in short
//!
//! The field `lane` of a request names one *lane*: a worker's registration with one queue. A lane that
//! [registers](Broker::register) gets a name that was never used before, an entry at the broker, and a **lease**. Every
//! [turn](Broker::turn) and every [beat](Broker::extend) renews the lease. A turn hands in endings and claims new jobs. Each claim
//! stores a **tag** with its jobs: the lane's name and a claim number that only grows. An ending counts only while the stored tag
//! equals the delivery's, byte for byte. When a lease is over, a reclaimer [fences](Broker::fence) the lane: the broker answers
//! [`Error::Forgotten`](crate::Error::Forgotten) to all of its later requests. Then the reclaimer [takes back](Broker::reclaim) the
//! lane's jobs.
//!
//! # Requests are sent again until they are answered
//!
//! Turns and enqueues carry a sequence number. The caller sends a request without an answer again, **unchanged**. The broker
//! recognises the number, carries out nothing twice, and gives the same answer. `Forgotten` means that the broker does not know this
//! lane or producer, or not its last requests: register under a new name, and consider all jobs that it held as lost.
//!
//! The rules have numbers, R1 to R13, which the documentation below and the code refer to. `docs/protocol.md` of the repository has
//! the rules, and `docs/README.md` the glossary.

mod aging;
mod ask;
mod audit;
mod calls;
mod change;
mod condition;
mod delegate;
mod durability;
mod edit;
mod enqueue;
mod group;
mod hints;
#[doc(hidden)]
pub mod history;
mod inspect;
mod lease;
mod limit;
mod load;
mod operation;
mod outbox;
mod party;
mod pause;
mod remark;
mod rewind;
mod scan;
mod schedule;
mod standing;
mod stats;
mod sweep;
mod topic;
mod transition;
mod turn;
mod worker;

use std::{fmt::Debug, sync::Arc, time::Duration};

use async_trait::async_trait;

pub(crate) use self::calls::{after, on_broker, on_broker_until};
use self::history::Report;
pub use self::{
    aging::*, ask::*, audit::*, change::*, condition::*, durability::*, edit::*, enqueue::*, group::*, hints::*, inspect::*, lease::*,
    limit::*, load::*, operation::*, outbox::*, party::*, pause::*, remark::*, rewind::*, scan::*, schedule::*, standing::*, stats::*,
    sweep::*, topic::*, transition::*, turn::*, worker::*,
};
use crate::{address::JobId, alarm::Alarm, clock::Clock, error::Result, io::BoxFuture};
pub use crate::{group::*, limit::*, priority::Priority, unique::*};

/// Longest delay, retention, expiry or timeout: a hundred years.
pub const LONGEST: Duration = Duration::from_secs(100 * 365 * 24 * 3600);

/// Most items of one request: jobs of an enqueue, finishes and claims of a turn, ids of a change.
pub const MAX_ITEMS: usize = 500;

/// Most jobs of `scheduled`, and as many of `retry`, that a turn promotes.
pub const DUE_ITEMS: usize = 200;

/// Most bytes of the envelopes and results of one request or answer (a single larger item is sent alone).
pub const MAX_BYTES: usize = 1024 * 1024;

/// Most jobs that one call of [`Broker::reclaim`] moves.
pub const RECLAIM_ITEMS: usize = 100;

/// A store of jobs: Redis, SQLite, or a wrapper around another broker.
///
/// Every method is one atomic transition, or a bounded series of them if its documentation states
/// so. Each has a deadline of its own: without an answer it returns
/// [`Error::Ambiguous`](crate::Error::Ambiguous). A method retries a request only if the request
/// was certainly not carried out. Requests over [`MAX_ITEMS`] are a caller's mistake and are
/// refused.
///
/// The trait is sealed until 1.0: methods will be added.
#[async_trait]
pub trait Broker: Inspect + Debug + Send + Sync + 'static {
    /// The kind and the location of this broker.
    fn info(&self) -> BrokerInfo;

    /// Runs a task on the broker's own I/O thread: heartbeats, lanes, batching. It must never block.
    fn spawn(&self, task: BoxFuture<'static, ()>);

    /// A timer for a task on the I/O thread; call it there. [`Alarm::default`] is as precise as the runtime's clock.
    fn alarm(&self) -> Alarm;

    /// The clock of its clients: that of the machine, unless a test owns the time of the broker.
    fn clock(&self) -> Clock;

    /// Connects to the broker and checks what work needs: version, credentials, schema, and settings that would lose jobs (an
    /// eviction policy).
    ///
    /// # Errors An error that names the change to make; [`Error::Unavailable`](crate::Error::Unavailable) when it cannot be reached.
    async fn check(&self) -> Result<()>;

    /// Registers a lane or a producer, and returns its name and the broker's time (R1). Not
    /// idempotent: a repeated request creates a second name, which is not used and is removed after
    /// its lease. Also adds the queue to the list of all queues.
    ///
    /// The first lane of a worker in a queue stores the worker's [record](WorkerInfo) there. The record stays as it is until the worker has
    /// no lane in this queue any more, however its lanes went.
    async fn register(&self, request: &Register) -> Result<Registered>;

    /// Stores jobs: → `ready`, or `scheduled` when they have a delay (R12). One answer per job, in order.
    ///
    /// A replay (`seq` = last) returns the stored answers and writes nothing. A given id that
    /// exists is answered, not stored. Then the [key](NewJob::unique) is asked for: a job whose key
    /// another one holds is skipped, changes that one, or waits for it as `held`. Jobs of one
    /// request are processed in order, so that they see the keys of those before them.
    ///
    /// At the [address of a topic](topic_address) the jobs are events: each is appended to the log of the topic, and answered `Stored`.
    /// The client also calls this on the application's threads, in any runtime or in none.
    ///
    /// # Errors
    /// `Forgotten` if the producer is unknown; `Old` if `seq` is below the last; `BrokerFull` if there is no room, and then nothing was
    /// stored.
    async fn enqueue(&self, request: &Enqueue) -> Result<Vec<Enqueued>>;

    /// Enqueues, then waits until the jobs are as durable as `confirm` asks, for two seconds at most. Returns how durable they are.
    ///
    /// # Errors
    /// Those of [`enqueue`](Self::enqueue). Jobs that are less durable than asked are no error.
    async fn enqueue_confirmed(&self, request: &Enqueue, confirm: &Confirm) -> Result<(Vec<Enqueued>, Confirmed)>;

    /// What acknowledged jobs survive, at least. A server whose settings cannot be read may keep more.
    async fn durability(&self) -> Result<Durability>;

    /// How much room there is, and whether the broker refuses new jobs. Workers ask about once per
    /// beat, people with `status` and `doctor`. A broker that cannot determine it returns
    /// [`Condition::default`].
    async fn condition(&self) -> Result<Condition>;

    /// Settles the endings of [`Turn::finishes`], then promotes due jobs and claims up to [`Turn::claim`] jobs, in one transition (R2 to
    /// R5).
    ///
    /// An ending whose tag is no longer stored is stale: it changes nothing, and its position is in
    /// [`TurnAnswer::stale`]. In the queue of a [subscription](Subscribe) it first reads on in the
    /// log of the topic, while fewer jobs could start than [`Turn::claim`] asks for and fewer than
    /// [`MOST_TAKEN`] have not ended, and makes a job of each entry. A full broker does without
    /// that, and carries out the rest.
    ///
    /// A replay (`seq` = last) writes nothing and returns the same stale positions and deliveries.
    /// In a replay, a delivery whose tag is no longer stored is [`void`](Delivery::void).
    ///
    /// # Errors
    /// `Forgotten` if the lane has no entry, or `seq` is more than one above the last; `Old` if it is below the last.
    async fn turn(&self, turn: &Turn) -> Result<TurnAnswer>;

    /// Whether a queue has waiting jobs. If it has none, a turn would find nothing to claim. A broker for which the question costs about
    /// as much as a turn answers `true`.
    async fn has_work(&self, queue: &str) -> Result<bool>;

    /// Renews the leases of several lanes, of any queues (R6). Never creates an entry. Works on a full broker.
    ///
    /// One answer per lane, in order: `Forgotten` if the entry is gone or older than the last answered turn.
    async fn extend(&self, lanes: &[Extend]) -> Vec<Result<Extended>>;

    /// The overdue lanes of a queue (R7, first check): lanes whose lease is over, and lanes whose lease ends later than a renewal would
    /// end now; at most `limit` of each. And how many lanes are fenced already.
    async fn overdue(&self, queue: &str, limit: usize) -> Result<OverdueLanes>;

    /// Fences each lane whose deadline is unchanged since the first check and which is still overdue (R7, second check): its entry is
    /// removed. Returns for each lane, in order, whether it was fenced. At most [`MAX_ITEMS`].
    async fn fence(&self, queue: &str, lanes: &[OverdueLane]) -> Result<Vec<bool>>;

    /// Reclaims the jobs of every fenced lane in bounded steps: → `retry`, `ready` or `dead`, by the [`CrashRule`] (R7). Forgets a fenced
    /// lane only after one whole pass over the active jobs that began after its fencing. Any reclaimer can continue what another has
    /// begun.
    async fn reclaim(&self, queue: &str, rule: &CrashRule) -> Result<Reclaimed>;

    /// One bounded round of housekeeping: removes idle producers, remembered ids, and records past their retention.
    async fn sweep(&self, queue: &str, limits: &SweepLimits) -> Result<Swept>;

    /// Adds what a worker has counted to the [history](history) of its queue and to its [failures](Inspect::failures), and notes how deep the queue is. It grows what is stored, up
    /// to a bound, so that a full broker refuses it. It may be sent again, unchanged: a replay changes nothing.
    ///
    /// # Errors
    /// `BrokerFull`, and then nothing was added.
    async fn report(&self, report: &Report) -> Result<()>;

    /// Announcements that `ready` of a queue is no longer empty, or that a job has become the earliest to be due. A hint may be lost
    /// or wrong; only a poll is certain.
    fn hints(&self, queue: &str) -> Hints;

    /// The schedules of a queue that are due, at most `limit`, the first due first. They are handed
    /// out: no other worker gets them for [`HANDED_OUT`], so that only one of many workers ticks.
    /// That saves work and no more: what they decide is compared when it is
    /// [set](Self::set_schedule).
    async fn due_schedules(&self, queue: &str, limit: usize) -> Result<DueSchedules>;

    /// Changes a schedule and stores the jobs of its ticks, in one transition, if its state is the one that was read. The jobs of a request
    /// are no producer's: their ids decide whether they exist.
    ///
    /// # Errors
    /// `BrokerFull` for a request with jobs or a definition, and then nothing was written.
    async fn set_schedule(&self, request: &SetSchedule) -> Result<ScheduleAnswer>;

    /// Announcements that a schedule of a queue is due at a time before all others, or now. A hint may be lost.
    fn tick_hints(&self, queue: &str) -> Hints;

    /// Everything about one job, as [`show`](Inspect::show) gives it, and in the same transition
    /// the mark that somebody waits for its end: for [`WATCHED`], unless the job has ended. While a
    /// mark is valid, the end of the job is [announced](Self::ending_hints), and removes the mark.
    /// Whoever waits for longer sets it again. No more than [`MOST_WATCHED`] jobs of a queue are
    /// marked, and none while a worker of an older release serves the queue: who waits must look
    /// now and then as well.
    ///
    /// If the job is acknowledged without retention while the mark is valid, it is kept for
    /// [`WATCHED_KEEP`], with its result if the ending has one. Workers send results while
    /// [announcements](Self::watch_hints) show that a job of the queue is watched.
    ///
    /// # Errors
    /// `BrokerFull`, and then no mark was set.
    async fn watch(&self, queue: &str, id: &JobId) -> Result<Option<StoredJob>>;

    /// Announcements that this job has ended, if somebody [watches](Self::watch) it, or may have. A hint may be lost or wrong.
    fn ending_hints(&self, queue: &str, id: &JobId) -> Hints;

    /// Announcements that a program [watches](Self::watch) a job of a queue, or that a job of it
    /// was cancelled while it ran: its worker receives the cancel with its next
    /// [heartbeat](Self::extend). Not every mark is announced, but one in a second at least. A hint
    /// may be lost.
    fn watch_hints(&self, queue: &str) -> Hints;

    /// Stores the progress and the log lines of a lane's jobs. One answer per job, in order:
    /// whether it was stored. If its tag is no longer stored, nothing is changed. Everything is
    /// numbered within its delivery, so that a request that comes again changes nothing, and one
    /// that comes late puts no progress back. It renews no lease.
    ///
    /// If somebody [watches](Self::watch) the job, the change is [announced](Self::remark_hints). No handler waits for it, and no job depends on it.
    ///
    /// # Errors
    /// `Forgotten` if the lane has no entry; `BrokerFull`, and then nothing was stored; `FeatureUnknown` while a worker of an older release
    /// serves the queue.
    async fn remark(&self, remarks: &Remarks) -> Result<Vec<bool>>;

    /// Announcements of new progress or log lines of this job, if it is [watched](Self::watch). A
    /// hint may be lost or wrong.
    fn remark_hints(&self, queue: &str, id: &JobId) -> Hints;

    /// Marks a queue as one that a watcher follows, for `stands`, and for [`FOLLOWED`] at most:
    /// until then the broker keeps the last [`TRANSITIONS_KEPT`]
    /// [transitions](Inspect::transitions) of its jobs. Marks are not counted; the one that is
    /// valid the longest applies. Without a mark no transition is noted.
    ///
    /// # Errors
    /// `BrokerFull`, and then no mark was set; `FeatureUnknown` while a worker of an older release serves the queue.
    async fn follow(&self, queue: &str, stands: Duration) -> Result<Followed>;

    /// Makes a [subscription](Subscribe), or notes which types of event its workers know. True: it
    /// was made. An existing subscription keeps its cursor, and ignores the start in the request.
    ///
    /// # Errors
    /// `BrokerFull`, and then nothing was changed.
    async fn subscribe(&self, request: &Subscribe) -> Result<bool>;

    /// One bounded step of removing what the [retention](Retention) of a topic does not keep: the
    /// oldest entries of its log, at most [`TRIM_STEP`]. An unread entry of a subscription is kept
    /// up to the limit of the lag. If it goes nevertheless, that subscription has lost it, which is
    /// counted.
    async fn trim_topic(&self, topic: &str) -> Result<Trimmed>;

    #[doc(hidden)]
    fn __sealed(&self, _: sealed::Seal);
}

#[doc(hidden)]
pub mod sealed {
    /// Keeps [`Broker`](super::Broker) ours to change; naming it is a promise to follow.
    #[derive(Debug)]
    pub struct Seal;
}

/// The kind and location of a broker, for people.
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
