//! The queues of a worker, in the state of the pump.

use std::{
    collections::BTreeSet,
    mem,
    ops::{Index, IndexMut},
    sync::Arc,
    time::Instant,
};

use queue_core::broker::WorkerMode;

use super::{lane::Lane, reason::Work, shares::Served};
use crate::{
    config::{QueueConfig, Settings},
    queues,
    time::now,
    tuning::{LANES, POLL},
};

pub(super) struct Queues {
    pub(super) all: Vec<QueueState>,
    /// When each queue is polled next.
    wakes: BTreeSet<(Instant, usize)>,
    /// The queues with `dirty` set.
    pub(super) dirty: Vec<usize>,
    /// The lowest `served` of all queues that may have work.
    pub(super) least_served: Served,
    /// The queues whose first lanes have to be registered.
    pub(super) unregistered: Vec<usize>,
    /// The queues whose first lanes are being registered, with the start of the registration.
    pub(super) registering: Vec<(Instant, usize)>,
}

/// The state of a queue in the pump.
pub(super) struct QueueState {
    pub(super) name: Arc<str>,
    pub(super) lanes: Vec<Lane>,
    pub(super) weight: u32,
    pub(super) limit: usize,
    /// Slots that its jobs hold, or that are reserved for its turns.
    pub(super) used: usize,
    /// Whether jobs may be claimed: the first lane is registered. A single queue, and queues in
    /// strict order, do not wait for the registration.
    pub(super) registered: bool,
    /// The reason to request jobs.
    pub(super) work: Work,
    /// The start of the delay if a small turn is postponed.
    pub(super) waits: Option<Instant>,
    /// Claims in flight.
    pub(super) claiming: usize,
    /// Whether an ending waits for a turn.
    pub(super) dirty: bool,
    pub(super) wake: Instant,
    pub(super) served: Served,
    /// The number of lanes of the queue, of all workers.
    pub(super) workers: usize,
    pub(super) parked: bool,
    pub(super) resumed: Option<Instant>,
    /// The last mode that the worker has reported in this queue.
    pub(super) reported_mode: WorkerMode,
}

impl QueueState {
    /// A queue that may have work gets free slots.
    pub(super) fn may_have_work(&self) -> bool {
        self.registered && self.work.reason().is_some()
    }

    /// Whether a claim can be sent. It cannot while all lanes have a turn in flight.
    pub(super) fn can_send(&self) -> bool {
        self.lanes.len() < LANES || self.lanes.iter().any(|lane| !lane.in_flight)
    }
}

impl Queues {
    pub(super) fn new(configs: Vec<QueueConfig>, names: &queues::Queues, settings: &Settings) -> Self {
        let wake = now() + POLL;
        // A single queue does not wait for others. In strict order, no queue is skipped because
        // another one registers faster.
        let registers_first = configs.len() > 1 && !settings.strict_order;
        let queues = configs.into_iter().zip(names.iter()).map(|(config, queue)| QueueState {
            name: queue.name.clone(),
            lanes: Vec::new(),
            weight: config.weight,
            limit: config.limit.unwrap_or(settings.concurrency),
            used: 0,
            registered: !registers_first,
            work: Work::new(),
            waits: None,
            claiming: 0,
            dirty: false,
            wake,
            served: 0,
            workers: 0,
            parked: false,
            resumed: None,
            reported_mode: WorkerMode::Works,
        });
        let all: Vec<QueueState> = queues.collect();
        Queues {
            wakes: (0..all.len()).map(|queue| (wake, queue)).collect(),
            dirty: Vec::new(),
            least_served: 0,
            unregistered: if registers_first { (0..all.len()).rev().collect() } else { Vec::new() },
            registering: Vec::new(),
            all,
        }
    }

    /// Notes that a result of this queue waits for a turn.
    pub(super) fn mark_dirty(&mut self, queue: usize) {
        if !mem::replace(&mut self.all[queue].dirty, true) {
            self.dirty.push(queue);
        }
    }

    /// The queues that are due by this time.
    pub(super) fn due(&self, by: Instant) -> Vec<usize> {
        self.wakes.range(..(by, 0)).map(|(_, queue)| *queue).collect()
    }

    pub(super) fn next_wake(&self) -> Option<Instant> {
        self.wakes.first().map(|(wake, _)| *wake)
    }

    /// Polls the queue at this time, unless it is polled earlier.
    pub(super) fn wake_by(&mut self, queue: usize, wake: Instant) {
        if wake < self.all[queue].wake {
            self.set_wake(queue, wake);
        }
    }

    pub(super) fn set_wake(&mut self, queue: usize, wake: Instant) {
        let before = mem::replace(&mut self.all[queue].wake, wake);
        self.wakes.remove(&(before, queue));
        self.wakes.insert((wake, queue));
    }
}

impl Index<usize> for Queues {
    type Output = QueueState;

    fn index(&self, queue: usize) -> &QueueState {
        &self.all[queue]
    }
}

impl IndexMut<usize> for Queues {
    fn index_mut(&mut self, queue: usize) -> &mut QueueState {
        &mut self.all[queue]
    }
}
