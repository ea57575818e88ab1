//! The turn: what a lane hands in, and what it gets to do.

use std::{sync::Arc, time::Duration};

use super::{KeepLimits, PartyName};
use crate::address::JobId;

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

/// How one delivery ended.
#[derive(Clone, Debug)]
pub struct Finish {
    /// The job.
    pub id: JobId,
    /// The delivery's claim number; with the lane's name it is the tag.
    pub claim: u64,
    /// How many bytes its envelope has, for the queue's limit of kept jobs. It is not asked for what is not kept.
    pub size: usize,
    /// Where the job goes.
    pub ending: Ending,
}

impl Finish {
    /// The end of this delivery.
    pub fn new(delivery: &Delivery, ending: Ending) -> Self {
        Finish { id: delivery.id.clone(), claim: delivery.claim, size: delivery.envelope.len(), ending }
    }
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
    /// The same in microseconds, as its [hints](super::Hint::as_of) tell it; `None` where they do not.
    pub as_of: Option<i64>,
    /// Whether `ready` still holds jobs that any lane may have (always false while paused).
    pub more: bool,
    /// Whether it holds suspects, for a lane that may have one (always false while paused).
    pub suspects: bool,
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
