//! The turn: a lane submits endings and claims jobs.

use std::{fmt, str::FromStr, sync::Arc, time::Duration};

use super::{KeepLimits, PartyName, PauseOf, TEXT_MAX, Used};
use crate::{
    address::{JobId, serde_as_text},
    error::{Error, Result},
    text::cut,
};

/// Endings and a claim of one lane.
///
/// A turn is never changed after it was sent: without an answer it is sent again unchanged.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct Turn {
    /// The queue.
    pub queue: Arc<str>,
    /// The lane.
    pub lane: PartyName,
    /// One more than the number of the last answered turn; the first turn has 1.
    pub seq: u64,
    /// The lane's lease ends this long after the broker has handled the turn.
    pub lease: Duration,
    /// The endings of the lane's deliveries, each delivery at most once. At most
    /// [`MAX_ITEMS`](super::MAX_ITEMS). The broker chooses their order. The order is visible if one
    /// ending releases a key for a held job, and another one returns a job to the same line.
    pub finishes: Vec<Finish>,
    /// How many jobs may be claimed, 0 to [`MAX_ITEMS`](super::MAX_ITEMS). The answer has at most
    /// about [`MAX_BYTES`](super::MAX_BYTES) of jobs, but at least one job if there is one.
    pub claim: usize,
    /// Whether one of them may be a *suspect*: a job that was running when its process died. Never
    /// more than one.
    pub suspect: bool,
    /// Names of tasks whose parked jobs this lane claims before other jobs. A lane sends them at
    /// most once a second, and only while [`TurnAnswer::parked`] is true. At most 200 names.
    pub resume: Vec<Arc<str>>,
    /// The worker's release: of the [unreadable](Ending::Unreadable) jobs, `resume` claims those
    /// that this release has not failed on. Sent with `resume` only.
    pub release: Option<Arc<str>>,
    /// The largest number and size of ended jobs with a retention that the queue keeps.
    pub keep: KeepLimits,
}

impl Turn {
    /// A turn without endings that claims nothing: it renews the lease.
    pub fn new(queue: impl Into<Arc<str>>, lane: PartyName, seq: u64, lease: Duration) -> Self {
        Turn {
            queue: queue.into(),
            lane,
            seq,
            lease,
            finishes: Vec::new(),
            claim: 0,
            suspect: true,
            resume: Vec::new(),
            release: None,
            keep: KeepLimits::default(),
        }
    }

    /// Claims up to `n` jobs.
    #[must_use]
    pub fn claim(mut self, n: usize) -> Self {
        self.claim = n;
        self
    }

    /// Submits these endings.
    #[must_use]
    pub fn finish(mut self, finishes: Vec<Finish>) -> Self {
        self.finishes = finishes;
        self
    }
}

/// The ending of one delivery in a turn.
#[derive(Clone, Debug)]
pub struct Finish {
    /// The job.
    pub id: JobId,
    /// The delivery's claim number; with the lane's name it is the receipt.
    pub claim: u64,
    /// The size of its envelope in bytes, for the queue's limit of kept jobs. Only the ending of a
    /// kept job needs it.
    pub size: usize,
    /// The ending.
    pub ending: Ending,
    /// The usage of the rates of the job's limits that the run has reported, if any. The difference
    /// to the charge of its claim is charged or refunded. The job's next claim is charged like this
    /// one.
    pub used: Option<Box<Used>>,
}

impl Finish {
    /// The end of this delivery.
    pub fn new(delivery: &Delivery, ending: Ending) -> Self {
        Finish { id: delivery.id.clone(), claim: delivery.claim, size: delivery.envelope.len(), ending, used: None }
    }

    /// For brokers: the reported actual cost of the run, if it has started. A job that has not
    /// started returns its whole charge.
    pub fn used(&self) -> Option<&Used> {
        self.used.as_deref().filter(|_| self.ending.has_started())
    }
}

/// The ending of a delivery. All endings except `Release`, `Stopped`, `Void`, `Park` and
/// `Unreadable` clear the job's crashes, and the note about releases that could not read it.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Ending {
    /// The job is done (*ack*): → `done`, kept with its result for `keep`. Without `keep` it is
    /// removed, unless it is [watched](super::Broker::watch): then it is kept for
    /// [`WATCHED_KEEP`](super::WATCHED_KEEP).
    Ack {
        /// The encoded result, if the task has one and the job is kept, or a job of the queue is
        /// watched.
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
    /// The job shall run again later (*snooze*): → `scheduled` for `delay`. Counts a snooze.
    Snooze {
        /// From now.
        delay: Duration,
    },
    /// A service that the job calls has rejected it because of its rate. For the given time, at
    /// most [`LONGEST_CLOSED`](super::LONGEST_CLOSED), the limit of this name starts no jobs;
    /// without a name it is the first limit of the job with a rate. If the job has no limit, and
    /// none is named, its group is [paused](super::SetPause) for this time. → the head of `ready`.
    /// Without limits and group, or without a limit of this name, only the job waits: →
    /// `scheduled`. Counts a snooze.
    RateLimited {
        /// From now.
        after: Duration,
        /// The name of the limit.
        limit: Option<String>,
    },
    /// This round is done and the next follows (*repeat*): → `scheduled` for `delay`, or the tail
    /// of `ready` if `delay` is zero. Clears attempts, errors and snoozes, and changes whether the
    /// round is [odd](Delivery::odd).
    Repeat {
        /// From now.
        delay: Duration,
    },
    /// The job can never succeed (*bury*): → `dead`, kept with payload and error history. Counts an
    /// attempt if there is an `error`.
    Bury {
        /// Why: `failed`, `buried`, `undecodable` or `crashed`.
        reason: BuryReason,
        /// Why, for its error history.
        error: Option<String>,
    },
    /// The job is no longer wanted (*cancel*): → `cancelled`.
    Cancel {
        /// Why.
        reason: String,
    },
    /// The job's time to start has passed: → `expired`.
    Expire,
    /// The lane returns the job without a run (*return*): → the head of `ready`. Charges nothing,
    /// and refunds the charge of the claim to a rate.
    Return,
    /// The same after a run that had begun and was asked to stop. Its charge to a rate is not
    /// refunded.
    Stopped {
        /// Whether its worker stops: this is counted with the job.
        by_shutdown: bool,
    },
    /// The worker does not know the task (*park*): → `parked` under the task's name, until a worker
    /// that knows the task claims it. Charges nothing.
    Park {
        /// The task's name.
        task: String,
    },
    /// The worker knows the task, and its release cannot read the job's parameters (*unreadable*):
    /// → `parked` under the task's name, until a worker of another release claims it. Charges
    /// nothing. A release that has failed on the job is not offered it again.
    ///
    /// A [sweep](super::Broker::sweep) buries the job (→ `dead`, as `undecodable`) `within` after
    /// the first release has failed on it, or as soon as more than [`UNREADABLE_RELEASES`] have.
    Unreadable {
        /// The task's name.
        task: String,
        /// The release that has failed on it.
        release: String,
        /// Why, for the job's error history.
        error: String,
        /// How long after the first failure the job is buried.
        within: Duration,
    },
    /// The ending of a delivery that was cancelled while the lane held it. If the receipt is still
    /// valid, it counts as a return.
    Void,
}

impl Ending {
    /// For brokers: whether it ends a run that has begun. If not, the charge of the claim to rates
    /// is refunded.
    pub fn has_started(&self) -> bool {
        !matches!(self, Ending::Return | Ending::Void | Ending::Park { .. } | Ending::Unreadable { .. })
    }
}

/// The most releases to which an unreadable job is offered.
pub const UNREADABLE_RELEASES: usize = 16;

/// Separates a task's name and those of releases, in the name under which an unreadable job is
/// parked.
const BETWEEN: char = '\u{1}';

/// A release as it is stored with a job: at most [`TEXT_MAX`] bytes, without control characters.
pub(crate) fn stored_release(release: &str) -> String {
    cut(release.replace(|c: char| c.is_control(), "?"), TEXT_MAX)
}

/// The name under which a job is parked if these releases have failed on it: that of its task if
/// there are none.
#[cfg_attr(not(feature = "sqlite"), allow(dead_code, reason = "on Redis scripts do it"))]
pub(crate) fn parked_under(task: &str, releases: &[String]) -> String {
    releases.iter().fold(task.to_owned(), |name, release| name + "\u{1}" + release)
}

/// The releases that have failed on a job that is parked under this name.
pub(crate) fn failed_releases(name: &str) -> impl Iterator<Item = &str> {
    name.split(BETWEEN).skip(1)
}

/// Why a job is dead.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum BuryReason {
    /// Its last attempt failed.
    Failed,
    /// Its handler requested it.
    Buried,
    /// Its envelope or parameters cannot be decoded.
    Undecodable,
    /// The processes that held it crashed too often.
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
    #[doc(hidden)]
    pub fn from_name(name: &str) -> Option<Self> {
        [BuryReason::Failed, BuryReason::Buried, BuryReason::Undecodable, BuryReason::Crashed]
            .into_iter()
            .find(|reason| reason.name() == name)
    }
}

impl fmt::Display for BuryReason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

impl FromStr for BuryReason {
    type Err = Error;

    /// Parses the output of [`Display`](fmt::Display).
    fn from_str(text: &str) -> Result<Self> {
        BuryReason::from_name(text)
            .ok_or_else(|| Error::invalid("reason", text, "is unknown; use one of failed, buried, undecodable, crashed"))
    }
}

serde_as_text!(BuryReason);

/// The answer to a turn.
#[derive(Clone, Debug, Default)]
#[non_exhaustive]
pub struct TurnAnswer {
    /// Positions in [`Turn::finishes`] of stale endings: the job no longer belonged to the
    /// delivery, and nothing was changed.
    pub stale: Vec<usize>,
    /// The claimed jobs.
    pub deliveries: Vec<Delivery>,
    /// The broker's clock, in milliseconds since 1970.
    pub now_ms: i64,
    /// The same in microseconds, as in its [hints](super::Hint::as_of); `None` if they have no
    /// time.
    pub as_of: Option<i64>,
    /// Whether `ready` still has jobs that are not suspects (false while the queue is paused).
    pub more: bool,
    /// Whether `ready` has suspects (false while the queue is paused).
    pub suspects: bool,
    /// The time until the earliest job of `scheduled` and `retry` is due, or a pause in the queue
    /// ends. While the queue is paused: until that pause ends.
    pub next_due: Option<Duration>,
    /// Whether any job is parked.
    pub parked: bool,
    /// Whether the queue is paused: endings are accepted, but no job is claimed.
    pub paused: bool,
    /// The pauses that had expired and that this turn has ended. Not in a replay.
    pub resumed: Vec<PauseOf>,
    /// Jobs that this turn has claimed and parked at once, because their tasks are paused. They
    /// were not started, and not charged. Not in a replay.
    pub aside: Vec<JobId>,
    /// The number of lanes that are registered with the queue, so that lanes can share polls.
    pub lanes: usize,
}

/// A job that a lane has claimed.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Delivery {
    /// The job.
    pub id: JobId,
    /// The claim number, which grows with every claim. A handler can fence its own storage with it.
    pub claim: u64,
    /// The stored envelope. Empty when `void`.
    pub envelope: Vec<u8>,
    /// How often its handler has failed.
    pub attempts: u32,
    /// How many crashes it was charged with; above zero it is a suspect.
    pub crashes: u32,
    /// For a suspect: the longest time for which its run may have lasted when its process crashed.
    /// When this run has lasted longer, the job is no longer suspected. Zero: unknown.
    pub suspected_for: Duration,
    /// How often it has snoozed.
    pub snoozes: u32,
    /// How often a service that it calls has rate-limited it: [`Ending::RateLimited`].
    pub rate_limited: u32,
    /// Whether the number of its [repeats](Ending::Repeat) is odd. Only a repeat changes that:
    /// after a run whose ending was not stored, it is the same.
    pub odd: bool,
    /// Only in a replay: the job was taken from the lane meanwhile. Do not run it; submit
    /// [`Ending::Void`].
    pub void: bool,
}

/// The number that a rate limit adds to the stored number of snoozes, which has both counts: rate
/// limits are above its lower 32 bits.
pub(crate) const ONE_RATE_LIMITED: u64 = 1 << 32;

/// The number that is added to the stored number in odd rounds of a repeating job: Lua represents
/// integers up to 2^53.
pub(crate) const ODD: u64 = 1 << 44;

/// Decodes the stored number: the snoozes of the job, its rate limits, and whether its round is
/// odd.
pub(crate) fn snoozes_of(stored: u64) -> (u32, u32, bool) {
    ((stored % ONE_RATE_LIMITED) as u32, (stored % ODD / ONE_RATE_LIMITED) as u32, stored / ODD % 2 == 1)
}

impl Delivery {
    /// A delivery with clean counters.
    pub fn new(id: JobId, claim: u64, envelope: Vec<u8>) -> Self {
        Delivery {
            id,
            claim,
            envelope,
            attempts: 0,
            crashes: 0,
            suspected_for: Duration::ZERO,
            snoozes: 0,
            rate_limited: 0,
            odd: false,
            void: false,
        }
    }
}
