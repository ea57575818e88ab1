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

/// Messages to the pump.
pub(crate) enum Event {
    /// A handler begins; from now on it can be cancelled.
    Begun { slot: SlotId, context: JobContext, isolation: bool },
    /// A delivery has an ending.
    Ended { slot: SlotId, ending: Ending, ran: Option<Ran> },
    /// The broker announces work: now, as of some time of its clock, or at this time.
    Hint { queue: usize, due: Option<Instant>, as_of: Option<i64> },
    /// A heartbeat may have an answer of interest: a running job was cancelled.
    News,
}

/// The index of a slot, and the generation of the job in it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct SlotId {
    pub(crate) index: usize,
    pub(crate) generation: u64,
}

/// A run whose handler has ended.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Ran {
    /// How long the job had waited, if this was its first start.
    pub(crate) waited: Option<Duration>,
    pub(crate) took: Duration,
}

/// The jobs of one turn, which are passed to their handlers.
pub(crate) struct Batch {
    pub(crate) queue: Arc<str>,
    pub(crate) lane: PartyName,
    pub(crate) lease: LeaseClock,
    /// The time until which a program waits for the result of a job of the queue.
    pub(crate) watched: LeaseClock,
    /// The time of the broker's clock at the claim of the jobs.
    pub(crate) now_ms: i64,
    pub(crate) jobs: Vec<(SlotId, Delivery)>,
}
