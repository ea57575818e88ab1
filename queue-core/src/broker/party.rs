//! Who asks: worker lanes and producers, and their names.

use std::{
    fmt,
    sync::Arc,
    time::{Duration, Instant},
};

/// Who registers with a queue.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub enum Party {
    /// One lane of a worker process.
    Worker {
        /// The term of its lease: how long its jobs stay its own without a sign of life. Its turns and beats must not ask for more.
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
    /// When the answer is wanted, if that is before [`CALL_DEADLINE`](super::CALL_DEADLINE). It is not sent to the broker.
    pub until: Option<Instant>,
}

impl Register {
    /// A worker lane that asks for a name.
    pub fn worker(queue: impl Into<Arc<str>>, process: ProcessId, lease: Duration) -> Self {
        Register { queue: queue.into(), party: Party::Worker { lease }, process, until: None }
    }

    /// A producer that asks for a name.
    pub fn producer(queue: impl Into<Arc<str>>, process: ProcessId) -> Self {
        Register { queue: queue.into(), party: Party::Producer, process, until: None }
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
