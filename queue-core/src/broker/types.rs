//! The requests and answers of [`Broker`](super::Broker).

use std::{
    fmt,
    sync::Arc,
    time::{Duration, Instant},
};

use tokio::sync::watch;

use crate::address::JobId;

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

/// Who registers with a queue.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub enum Party {
    /// One lane of a worker process.
    Worker {
        /// How long its jobs stay its own without a sign of life.
        lease: Duration,
    },
    /// Somebody who enqueues.
    Producer,
}

/// Asks for a name.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct Register {
    /// The queue.
    pub queue: Arc<str>,
    /// Worker lane or producer.
    pub party: Party,
    /// Random per process start. Lanes of one process share it, so that a crash is judged over all they held.
    pub process: ProcessId,
}

impl Register {
    /// A worker lane that asks for a name.
    pub fn worker(queue: impl Into<Arc<str>>, process: ProcessId, lease: Duration) -> Self {
        Register { queue: queue.into(), party: Party::Worker { lease }, process }
    }

    /// A producer that asks for a name.
    pub fn producer(queue: impl Into<Arc<str>>, process: ProcessId) -> Self {
        Register { queue: queue.into(), party: Party::Producer, process }
    }
}

/// The identity of a process, random per start. Host and pid are labels, never identity.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
pub struct ProcessId(u64);

impl ProcessId {
    /// A new one.
    pub fn random() -> Self {
        ProcessId(fastrand::u64(..))
    }
}

impl fmt::Display for ProcessId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:016x}", self.0)
    }
}

impl fmt::Debug for ProcessId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{self}")
    }
}

/// The name of a worker lane or producer: `PROCESS.NONCE.N`, with the process, a random number of the client's for this
/// registration, and the broker's count of registrations. Never used twice.
#[derive(Clone, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct PartyName(Arc<str>);

impl PartyName {
    /// Takes a name as stored.
    pub fn new(name: impl Into<Arc<str>>) -> Self {
        PartyName(name.into())
    }

    /// The text.
    pub fn as_str(&self) -> &str {
        &self.0
    }

    /// The part that all lanes of a process share.
    pub fn process(&self) -> &str {
        self.0.split_once('.').map_or(&self.0, |(process, _)| process)
    }
}

impl fmt::Display for PartyName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl fmt::Debug for PartyName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

/// One of four priorities; each queue serves a higher one before all lower ones.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[repr(u8)]
pub enum Priority {
    /// Before everything else.
    Critical = 0,
    /// Before what is normal.
    High = 1,
    /// The default.
    #[default]
    Normal = 2,
    /// When nothing else waits.
    Low = 3,
}

impl Priority {
    /// All, from the first served to the last.
    pub const ALL: [Priority; 4] = [Priority::Critical, Priority::High, Priority::Normal, Priority::Low];

    /// The number in storage, 0 to 3.
    pub fn number(self) -> u8 {
        self as u8
    }

    /// Reads the number in storage.
    pub fn from_number(number: u8) -> Option<Self> {
        Self::ALL.get(usize::from(number)).copied()
    }

    /// The name on the command line and in `#[task(priority = "...")]`.
    pub fn name(self) -> &'static str {
        match self {
            Priority::Critical => "critical",
            Priority::High => "high",
            Priority::Normal => "normal",
            Priority::Low => "low",
        }
    }
}

/// When a job may start.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Due {
    /// As soon as a slot is free: → `ready`.
    #[default]
    Now,
    /// So long after the broker has taken it in, by the broker's clock: → `scheduled`.
    After(Duration),
    /// At this time, in milliseconds since 1970, by the broker's clock: → `scheduled`, or `ready` when it is past.
    AtMs(i64),
}

/// A job to be stored.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct NewJob {
    /// Its id.
    pub id: JobId,
    /// The encoded [`Envelope`](crate::envelope::Envelope).
    pub envelope: Vec<u8>,
    /// When it may start.
    pub due: Due,
    /// Its priority.
    pub priority: Priority,
    /// For a given id: the digest of task and payload that tells `Existing` from `IdConflict`. Zero for a made one.
    pub digest: u64,
}

impl NewJob {
    /// A job that may start now, at normal priority.
    pub fn new(id: JobId, envelope: Vec<u8>) -> Self {
        NewJob { id, envelope, due: Due::Now, priority: Priority::Normal, digest: 0 }
    }
}

/// Stores jobs of one queue. At most [`MAX_ITEMS`](super::MAX_ITEMS) and [`MAX_BYTES`](super::MAX_BYTES).
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct Enqueue {
    /// The queue.
    pub queue: Arc<str>,
    /// The registered producer.
    pub producer: PartyName,
    /// One more than the last; gaps are fine.
    pub seq: u64,
    /// The jobs, in order.
    pub jobs: Vec<NewJob>,
}

impl Enqueue {
    /// An enqueue of `jobs`.
    pub fn new(queue: impl Into<Arc<str>>, producer: PartyName, seq: u64, jobs: Vec<NewJob>) -> Self {
        Enqueue { queue: queue.into(), producer, seq, jobs }
    }
}

/// What became of one job of an enqueue.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Enqueued {
    /// It is stored.
    Stored,
    /// A job of this given id and the same payload exists, or finished within the last 24 hours.
    Existing,
    /// A job of this given id exists with another task or payload.
    IdConflict,
}

/// Finishes and a claim of one lane.
///
/// A turn is never changed once it was sent: without an answer it is sent again as it is.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct Turn {
    /// The queue.
    pub queue: Arc<str>,
    /// The registered lane.
    pub worker: PartyName,
    /// One more than the last answered; the first is 1.
    pub seq: u64,
    /// From now on the lane's lease ends so long after this turn.
    pub lease: Duration,
    /// How the lane's deliveries ended, each at most once. At most [`MAX_ITEMS`](super::MAX_ITEMS).
    pub finishes: Vec<Finish>,
    /// How many jobs may be claimed, 0 to [`MAX_ITEMS`](super::MAX_ITEMS). The answer holds at most about
    /// [`MAX_BYTES`](super::MAX_BYTES) of them, and one at least if there is one.
    pub claim: usize,
    /// Whether one of them may be a *suspect*: a job that was held by a process that died. Never more than one.
    pub suspect: bool,
    /// Names of tasks whose parked jobs this lane takes, before others. Asked for at most once a second, and only while
    /// [`TurnAnswer::parked`] says that there are any. At most 200 names.
    pub resume: Vec<Arc<str>>,
    /// How many finished jobs with retention the queue keeps, and how many bytes of them.
    pub keep: KeepLimits,
}

impl Turn {
    /// A turn that neither finishes nor claims: it renews the lease.
    pub fn new(queue: impl Into<Arc<str>>, worker: PartyName, seq: u64, lease: Duration) -> Self {
        Turn {
            queue: queue.into(),
            worker,
            seq,
            lease,
            finishes: Vec::new(),
            claim: 0,
            suspect: true,
            resume: Vec::new(),
            keep: KeepLimits::default(),
        }
    }

    /// Claims up to `n` jobs.
    #[must_use]
    pub fn claim(mut self, n: usize) -> Self {
        self.claim = n;
        self
    }

    /// Hands in these finishes.
    #[must_use]
    pub fn finish(mut self, finishes: Vec<Finish>) -> Self {
        self.finishes = finishes;
        self
    }
}

/// Limits of what a queue keeps of jobs that ended and were asked to be kept; the oldest go first.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct KeepLimits {
    /// Number of kept jobs. Default: 1,000,000.
    pub count: u64,
    /// Bytes of their envelopes and results together. Default: 256 MiB.
    pub bytes: u64,
}

impl Default for KeepLimits {
    fn default() -> Self {
        KeepLimits { count: 1_000_000, bytes: 256 * 1024 * 1024 }
    }
}

/// How one delivery ended.
#[derive(Clone, Debug)]
pub struct Finish {
    /// The job.
    pub id: JobId,
    /// The delivery's claim number; with the lane's name it is the tag.
    pub claim: u64,
    /// Where the job goes.
    pub ending: Ending,
}

/// Where a delivery's job goes. Everything but `Release`, `Void` and `Park` clears the job's crashes.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Ending {
    /// It is done (*ack*): → `done`. Kept with its result for `keep`, gone without.
    Ack {
        /// The encoded result, if the task has one and it is wanted.
        result: Option<Vec<u8>>,
        /// How long to keep job and result.
        keep: Option<Duration>,
    },
    /// The handler failed (*nack*): → `retry` for `delay`. Counts an attempt.
    Nack {
        /// Backoff, from now.
        delay: Duration,
        /// Why, for its error history.
        error: String,
    },
    /// It wants to come back later (*snooze*): → `scheduled` for `delay`. Counts a snooze.
    Snooze {
        /// From now.
        delay: Duration,
    },
    /// This round is done and the next comes later (*repeat*): → `scheduled` for `delay`, or the tail of `ready` for zero.
    /// Clears attempts, errors and snoozes.
    Repeat {
        /// From now.
        delay: Duration,
    },
    /// It will never work (*bury*): → `dead`, kept with payload and error history. Counts an attempt when `error` is given.
    Bury {
        /// In one word: `failed`, `buried`, `undecodable`, `crashed`.
        reason: BuryReason,
        /// Why, for its error history.
        error: Option<String>,
    },
    /// It is no longer wanted (*cancel*): → `cancelled`.
    Cancel {
        /// Why.
        reason: String,
    },
    /// Its time to start has passed: → `expired`.
    Expire,
    /// Given back untouched (*release*): → the head of `ready`. Charges nothing.
    Release,
    /// This worker does not know the task (*park*): → `parked` under this task name until one comes that does. Charges nothing.
    Park {
        /// The task's name.
        task: String,
    },
    /// The answer of a lane to a delivery that was cancelled under it. If its tag still stands after all, a release.
    Void,
}

/// Why a job is dead.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum BuryReason {
    /// Its last attempt failed.
    Failed,
    /// Its handler said so.
    Buried,
    /// Its bytes cannot be read.
    Undecodable,
    /// The processes that held it died too often.
    Crashed,
}

impl BuryReason {
    /// The word in storage, metrics and on the command line.
    pub fn name(self) -> &'static str {
        match self {
            BuryReason::Failed => "failed",
            BuryReason::Buried => "buried",
            BuryReason::Undecodable => "undecodable",
            BuryReason::Crashed => "crashed",
        }
    }

    /// Reads the word in storage.
    pub fn from_name(name: &str) -> Option<Self> {
        [BuryReason::Failed, BuryReason::Buried, BuryReason::Undecodable, BuryReason::Crashed]
            .into_iter()
            .find(|reason| reason.name() == name)
    }
}

/// What a turn brought.
#[derive(Clone, Debug, Default)]
#[non_exhaustive]
pub struct TurnAnswer {
    /// Positions in [`Turn::finishes`] that did not count: the job was no longer this delivery's (`LeaseLost`).
    pub stale: Vec<usize>,
    /// The claimed jobs.
    pub deliveries: Vec<Delivery>,
    /// The broker's clock, in milliseconds since 1970.
    pub now_ms: i64,
    /// Whether `ready` still holds jobs that this lane could have (always false while paused).
    pub more: bool,
    /// When the earliest job of `scheduled` and `retry` is due, from now.
    pub next_due: Option<Duration>,
    /// Whether any job is parked.
    pub parked: bool,
    /// Whether the queue is paused: finishes count, nothing is claimed.
    pub paused: bool,
    /// How many lanes are registered with the queue, for sharing polls. Zero in a replay.
    pub workers: usize,
}

/// A job in the hands of a lane.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Delivery {
    /// The job.
    pub id: JobId,
    /// Grows with every claim: the number that a handler can fence its own storage with.
    pub claim: u64,
    /// The stored envelope. Empty when `void`.
    pub envelope: Vec<u8>,
    /// How often its handler has failed.
    pub attempts: u32,
    /// How often a process that held it died, as charged; above zero it is a suspect.
    pub crashes: u32,
    /// How often it has asked to come back later.
    pub snoozes: u32,
    /// It was taken away since (only in a replay): do not run it, answer with [`Ending::Void`].
    pub void: bool,
}

impl Delivery {
    /// A delivery with clean counters.
    pub fn new(id: JobId, claim: u64, envelope: Vec<u8>) -> Self {
        Delivery { id, claim, envelope, attempts: 0, crashes: 0, snoozes: 0, void: false }
    }
}

/// Asks for more time for one lane.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct Extend {
    /// The queue.
    pub queue: Arc<str>,
    /// The lane.
    pub worker: PartyName,
    /// Its last answered turn, 0 before the first.
    pub answered: u64,
    /// From now on the lease ends so long after this call.
    pub lease: Duration,
}

impl Extend {
    /// Asks for `lease` more from now.
    pub fn new(queue: impl Into<Arc<str>>, worker: PartyName, answered: u64, lease: Duration) -> Self {
        Extend { queue: queue.into(), worker, answered, lease }
    }
}

/// What a beat brought.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Extended {
    /// Jobs that were cancelled under this lane, with the claim number they had: a hint, each still wants its answer.
    pub cancelled: Vec<(JobId, u64)>,
}

impl Extended {
    /// A beat that brought these cancels.
    pub fn new(cancelled: Vec<(JobId, u64)>) -> Self {
        Extended { cancelled }
    }
}

/// A lane whose lease has run out.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Suspect {
    /// The lane.
    pub worker: PartyName,
    /// The deadline that was seen, in broker milliseconds.
    pub deadline_ms: i64,
}

/// Look one of the reclaimer.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Suspects {
    /// Lanes whose deadline is past.
    pub expired: Vec<Suspect>,
    /// How many lanes are fenced and not yet swept to the end.
    pub fenced: usize,
}

impl Suspects {
    /// What was seen.
    pub fn new(expired: Vec<Suspect>, fenced: usize) -> Self {
        Suspects { expired, fenced }
    }
}

/// What a lost process costs the jobs that it held.
///
/// It charges one crash to every job it held that already is a suspect, or, if it held none, to all of them, which become
/// suspects. So the job that kills its process is found, and its neighbours are not punished.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CrashRule {
    /// The crash that buries a job. Default: 3.
    pub max_crashes: u32,
    /// Crashes further apart than this start a new count. Default: 72 h.
    pub window: Duration,
    /// How long a charged job waits in `retry`, times the crashes charged. An uncharged one goes to the head of `ready`.
    /// Default: 1 s.
    pub delay: Duration,
}

impl Default for CrashRule {
    fn default() -> Self {
        CrashRule { max_crashes: 3, window: Duration::from_secs(72 * 3600), delay: Duration::from_secs(1) }
    }
}

/// What a sweep of fenced lanes did.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Reclaimed {
    /// Jobs returned to `ready`, uncharged.
    pub released: usize,
    /// Jobs charged with a crash and sent to `retry`.
    pub charged: usize,
    /// Jobs buried as `crashed`.
    pub buried: usize,
    /// Fenced names that were swept to the end and forgotten.
    pub forgotten: usize,
}

/// What became of a cancel.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum CancelAnswer {
    /// It will not start.
    Cancelled,
    /// It was running: it can change nothing any more, and its handler is told with the next beat.
    CancelledActive,
    /// There is no such job, or it has ended.
    NotFound,
}

/// Limits of a round of housekeeping.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SweepLimits {
    /// Forget producers that were silent for so long. Default: 24 h.
    pub producers: Duration,
    /// Keep the tombstone of a finished given id for so long. Default: 24 h.
    pub tombstones: Duration,
    /// Keep at most so many of them. Default: 1,000,000.
    pub tombstone_count: u64,
    /// Keep dead jobs for so long. Default: 180 days.
    pub dead: Duration,
    /// Keep at most so many bytes of dead jobs. Default: 256 MiB.
    pub dead_bytes: u64,
    /// Limits of kept jobs that ended.
    pub keep: KeepLimits,
    /// Touch at most so many items of each kind in one call. Default: 100.
    pub items: usize,
}

impl Default for SweepLimits {
    fn default() -> Self {
        const DAY: Duration = Duration::from_secs(24 * 3600);
        SweepLimits {
            producers: DAY,
            tombstones: DAY,
            tombstone_count: 1_000_000,
            dead: DAY * 180,
            dead_bytes: 256 * 1024 * 1024,
            keep: KeepLimits::default(),
            items: 100,
        }
    }
}

/// What a round of housekeeping removed.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Swept {
    /// Idle producers.
    pub producers: usize,
    /// Tombstones of given ids.
    pub tombstones: usize,
    /// Dead jobs past their retention; each is counted in the queue's `dead_evicted`.
    pub dead: usize,
    /// Kept jobs past their retention.
    pub ended: usize,
}

impl Swept {
    /// True when nothing was left to do.
    pub fn is_empty(&self) -> bool {
        *self == Swept::default()
    }
}

/// A hint of [`Broker::hints`](super::Broker::hints).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Hint {
    /// Grows with every announcement.
    pub count: u64,
    /// When the announced job is due; `None`: now.
    pub due: Option<Instant>,
}

/// Announcements of one queue. The latest is kept: a waiter that was late sees that there were some.
#[derive(Clone, Debug)]
pub struct Hints(watch::Receiver<Hint>);

impl Hints {
    /// Wraps the receiving end; the sender keeps counting.
    pub fn new(receiver: watch::Receiver<Hint>) -> Self {
        Hints(receiver)
    }

    /// A source that never announces anything.
    pub fn silent() -> Self {
        Hints(watch::channel(Hint::default()).1)
    }

    /// Waits for an announcement that was not seen yet; forever, if the sender is gone.
    pub async fn next(&mut self) -> Hint {
        match self.0.changed().await {
            Ok(()) => *self.0.borrow_and_update(),
            Err(_) => std::future::pending().await,
        }
    }
}
