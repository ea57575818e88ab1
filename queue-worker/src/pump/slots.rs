//! The slots of a worker, and the jobs in them.

use std::time::Instant;

use queue_core::{CancelCause, JobContext, JobId};

use super::lane::LaneId;
use crate::messages::SlotId;

pub(super) struct Slots {
    pub(super) jobs: Vec<Option<Held>>,
    free: Vec<usize>,
    /// Slots that are reserved for turns in flight.
    pub(super) reserved: usize,
    /// Jobs that hold no slot any more and that the broker may still hold for this worker: endings
    /// that wait for a turn, and jobs that turns in flight end or claim. Without those of lanes
    /// that are late.
    pub(super) unanswered: usize,
    next_generation: u64,
}

/// A job in a slot.
pub(super) struct Held {
    pub(super) generation: u64,
    pub(super) lane: LaneId,
    pub(super) lane_generation: u32,
    pub(super) id: JobId,
    pub(super) claim: u64,
    /// Bytes of its envelope.
    pub(super) size: usize,
    /// Those before this one.
    pub(super) attempts: u32,
    pub(super) since: Instant,
    pub(super) suspect: bool,
    pub(super) handler: Option<Handler>,
    /// When and why it was cancelled.
    pub(super) cancelled: Option<(Instant, CancelCause)>,
    /// It did not stop; logged once.
    pub(super) stuck: bool,
    /// How often its handler was polled, at the last check, and since when it is so.
    pub(super) polls: (u32, Instant),
}

pub(super) struct Handler {
    pub(super) context: JobContext,
    pub(super) isolation: bool,
}

impl Slots {
    pub(super) fn new(count: usize) -> Self {
        let jobs = (0..count).map(|_| None).collect();
        Slots { jobs, free: (0..count).rev().collect(), reserved: 0, unanswered: 0, next_generation: 0 }
    }

    pub(super) fn len(&self) -> usize {
        self.jobs.len()
    }

    pub(super) fn busy(&self) -> usize {
        self.jobs.len() - self.free.len()
    }

    /// Free slots that are not reserved.
    pub(super) fn unreserved(&self) -> usize {
        self.free.len().saturating_sub(self.reserved)
    }

    /// How many jobs may be claimed, so that the broker never holds more jobs for this worker than
    /// it has slots.
    pub(super) fn claimable(&self) -> usize {
        self.free.len().saturating_sub(self.unanswered)
    }

    /// Takes a free slot, if there is one.
    pub(super) fn take(&mut self) -> Option<SlotId> {
        let index = self.free.pop()?;
        self.next_generation += 1;
        Some(SlotId { index, generation: self.next_generation })
    }

    /// The job of a slot, unless the slot has another job by now.
    pub(super) fn get_mut(&mut self, slot: SlotId) -> Option<&mut Held> {
        self.jobs[slot.index].as_mut().filter(|held| held.generation == slot.generation)
    }

    /// Frees the slot of a job, unless the slot has another job by now.
    pub(super) fn release(&mut self, slot: SlotId) -> Option<Held> {
        let held = self.jobs[slot.index].take_if(|held| held.generation == slot.generation)?;
        self.free.push(slot.index);
        Some(held)
    }

    pub(super) fn iter(&self) -> impl Iterator<Item = &Held> {
        self.jobs.iter().flatten()
    }

    pub(super) fn iter_mut(&mut self) -> impl Iterator<Item = &mut Held> {
        self.jobs.iter_mut().flatten()
    }
}
