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
    /// Jobs without a slot that the broker may still hold for this worker: jobs with endings that
    /// wait for a turn, and jobs that turns in flight end or claim. Jobs of late lanes are not
    /// counted.
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
    /// The size of the envelope in bytes.
    pub(super) size: usize,
    /// The number of earlier attempts.
    pub(super) attempts: u32,
    pub(super) since: Instant,
    pub(super) suspect: bool,
    pub(super) handler: Option<Handler>,
    /// The time and the cause of its cancellation.
    pub(super) cancelled: Option<(Instant, CancelCause)>,
    /// Whether it did not stop. This is logged once.
    pub(super) stuck: bool,
    /// The number of polls of the handler at the last check, and the time of the first check with
    /// this number.
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

    /// The number of jobs that may be claimed. The broker never holds more jobs for this worker
    /// than the worker has slots.
    pub(super) fn claimable(&self) -> usize {
        self.free.len().saturating_sub(self.unanswered)
    }

    /// Takes a free slot, if there is one.
    pub(super) fn take(&mut self) -> Option<SlotId> {
        let index = self.free.pop()?;
        self.next_generation += 1;
        Some(SlotId { index, generation: self.next_generation })
    }

    /// The job of a slot, unless the slot now has another job.
    pub(super) fn get_mut(&mut self, slot: SlotId) -> Option<&mut Held> {
        self.jobs[slot.index].as_mut().filter(|held| held.generation == slot.generation)
    }

    /// Frees the slot of a job, unless the slot now has another job.
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
