//! Lanes and producers, and their names.

use std::{
    fmt,
    str::FromStr,
    sync::Arc,
    time::{Duration, Instant},
};

use super::WorkerInfo;
use crate::{
    address::serde_as_text,
    error::{Error, Result},
};

/// The kind of party that registers with a queue.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub enum Party {
    /// A lane of a worker.
    Lane {
        /// The lease duration. Turns and heartbeats of the lane must not ask for more.
        lease: Duration,
        /// The record of its worker. The broker stores it with the first lane of the worker in this
        /// queue.
        info: WorkerInfo,
        /// Whether it replaces a lane that the broker has forgotten although its lease was valid.
        /// Then the broker has lost data, or is an older copy. The broker stores the time, see
        /// [`QueueStats::lost_at`](super::QueueStats::lost_at).
        lost: bool,
    },
    /// A producer.
    Producer,
}

/// A request to register.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct Register {
    /// The queue.
    pub queue: Arc<str>,
    /// Worker lane or producer.
    pub party: Party,
    /// Random per process start. All lanes of a process share it, so that the broker judges all of
    /// their jobs together after a crash.
    pub process: ProcessId,
    /// The caller's deadline, if it is before [`CALL_DEADLINE`](super::CALL_DEADLINE). It is not
    /// sent to the broker.
    pub until: Option<Instant>,
}

impl Register {
    /// A request of a lane without a worker record.
    pub fn lane(queue: impl Into<Arc<str>>, process: ProcessId, lease: Duration) -> Self {
        let party = Party::Lane { lease, info: WorkerInfo::default(), lost: false };
        Register { queue: queue.into(), party, process, until: None }
    }

    /// A lane of this worker. A producer has no record.
    #[must_use]
    pub fn with_info(mut self, of_worker: WorkerInfo) -> Self {
        if let Party::Lane { info, .. } = &mut self.party {
            *info = of_worker;
        }
        self
    }

    /// The same for a lane that replaces a forgotten one whose lease was valid.
    #[must_use]
    pub fn after_loss(mut self, is_lost: bool) -> Self {
        if let Party::Lane { lost, .. } = &mut self.party {
            *lost = is_lost;
        }
        self
    }

    /// A request of a producer.
    pub fn producer(queue: impl Into<Arc<str>>, process: ProcessId) -> Self {
        Register { queue: queue.into(), party: Party::Producer, process, until: None }
    }
}

/// The answer to [`Register`].
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Registered {
    /// The name, which was never used before.
    pub name: PartyName,
    /// The broker's time, in milliseconds since 1970. A producer derives the enqueue times of its
    /// jobs from it.
    pub now_ms: i64,
    /// False if no lane is registered with the queue, and no job was ever claimed from it: no
    /// worker has served it. For a producer.
    pub served: bool,
}

impl Registered {
    /// A name that was given at this time of the broker, for a queue that workers serve.
    pub fn new(name: PartyName, now_ms: i64) -> Self {
        Registered { name, now_ms, served: true }
    }

    /// Whether workers serve the queue, or have served it.
    #[must_use]
    pub fn served(mut self, served: bool) -> Self {
        self.served = served;
        self
    }
}

/// The identity of a process, random per start. Host and pid are labels, never identity.
#[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
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

impl FromStr for ProcessId {
    type Err = Error;

    fn from_str(text: &str) -> Result<Self> {
        let is_digit = |byte| matches!(byte, b'0'..=b'9' | b'a'..=b'f');
        let id = (text.len() == 16 && text.bytes().all(is_digit)).then(|| u64::from_str_radix(text, 16));
        id.and_then(std::result::Result::ok)
            .map(ProcessId)
            .ok_or_else(|| Error::invalid("worker id", text, "is not 16 digits and letters from a to f, as `workers` prints it"))
    }
}

serde_as_text!(ProcessId);

impl fmt::Debug for ProcessId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{self}")
    }
}

/// The name of a lane or producer: `PROCESS.NONCE.N`, with the process, a random number of this
/// registration, and the queue's count of registrations. No name is used twice.
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
