//! `settle`: out of `active`, whatever way: acknowledged, failed, snoozed, repeated, released, parked, cancelled, taken back from a worker
//! that died.
//!
//! **What a job has only while it is active is given back in this function, and nowhere else.** Today that is its tag and the slots
//! of its group and its limits, which fall with the place: whoever gives the job its next place reviews its group.

use queue_core::{JobId, broker::PartyName};

use super::{Model, Out, Place};

/// Who ends a delivery.
#[derive(Clone, Copy, Debug)]
pub(in crate::model) enum By<'a> {
    /// The lane, and the claim number of its delivery.
    Holder(&'a PartyName, u64),
    /// A person, or the sweep after a fence: whoever holds the job, holds it no longer.
    Others,
}

impl Model {
    /// Takes a job out of `active`. `None`: it is not active, or the tag of the delivery does not stand any more, and nothing was changed.
    pub(in crate::model) fn settle(&mut self, id: &JobId, by: By<'_>) -> Option<Out> {
        let job = self.jobs.get(id)?;
        let Place::Active { lane, claim } = job.place() else { return None };
        let stands = match by {
            By::Holder(holder, number) => lane == holder && *claim == number,
            By::Others => true,
        };
        if !stands {
            return None;
        }
        // Others may wait for what it holds.
        if !job.limit_keys().is_empty() {
            self.announce(self.now);
        }
        Some(Out(id.clone()))
    }
}
