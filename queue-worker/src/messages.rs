//! The messages between the pump and the runs of jobs.

use std::{
    sync::Arc,
    time::{Duration, Instant},
};

use queue_core::{
    __private::LeaseClock,
    JobContext,
    broker::{Delivery, Ending, PartyName},
};

/// The messages to the pump.
pub(crate) enum Event {
    /// A handler begins; from now on it can be cancelled.
    Begun { slot: SlotId, context: JobContext, isolation: bool },
    /// A delivery has its ending.
    Ended { slot: SlotId, ending: Ending, ran: Option<Ran> },
    /// The broker announces work: now, as of some time of its clock, or at this time.
    Hint { queue: usize, due: Option<Instant>, as_of: Option<i64> },
    /// A heartbeat may bring news: a running job was cancelled.
    News,
}

/// A slot, and which of its jobs in turn.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct SlotId {
    pub(crate) index: usize,
    pub(crate) generation: u64,
}

/// A run whose handler has ended.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Ran {
    /// How long its job had waited, if this was its first start.
    pub(crate) waited: Option<Duration>,
    pub(crate) took: Duration,
}

/// Jobs of one turn, on their way to their handlers.
pub(crate) struct Batch {
    pub(crate) queue: Arc<str>,
    pub(crate) lane: PartyName,
    pub(crate) lease: LeaseClock,
    /// Until when a program waits for the result of a job of the queue.
    pub(crate) watched: LeaseClock,
    /// The broker's clock when they were claimed.
    pub(crate) now_ms: i64,
    pub(crate) jobs: Vec<(SlotId, Delivery)>,
}
