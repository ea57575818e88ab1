//! Decoding of a delivery: its envelope, and its task.

use std::ops::Range;

use queue_core::{
    __private::{ENVELOPE_VERSION, Envelope},
    broker::{BuryReason, Delivery, Ending},
};

use super::Run;
use crate::{application::Known, letters::address};

impl Run {
    /// Reads the envelope. One that cannot be read is buried, one of a later release is parked, and
    /// one that came too late expires.
    pub(super) fn decode<'a>(&self, delivery: &'a Delivery) -> Result<Envelope<'a>, Ending> {
        let envelope = Envelope::decode(&delivery.envelope)
            .map_err(|error| Ending::Bury { reason: BuryReason::Undecodable, error: Some(error.to_string()) })?;
        if envelope.version > ENVELOPE_VERSION {
            // Kept apart from the task's own name, under which this very worker would take it back.
            return Err(Ending::Park { task: format!("{}@v{}", envelope.task, envelope.version) });
        }
        // One that may have committed is looked up first.
        let commits = || self.shared.application.task(&self.queue, &envelope.task).is_some_and(|known| known.handler.task.commits);
        if self.is_late(&envelope) && !commits() {
            return Err(Ending::Expire);
        }
        Ok(envelope)
    }

    /// Finds the task. A job of one that is not known here is parked.
    pub(super) fn find(&self, envelope: &Envelope<'_>, delivery: &Delivery) -> Result<&Known, Ending> {
        self.shared.application.task(&self.queue, &envelope.task).ok_or_else(|| {
            let (job, task) = (address(&self.queue, &delivery.id), &*envelope.task);
            tracing::warn!(%job, task, "parked: this worker has no task of this name; a worker that has it runs the job");
            Ending::Park { task: task.to_owned() }
        })
    }
}

/// The position of its payload in the envelope.
pub(super) fn payload_range(envelope: &[u8], payload: &[u8]) -> Range<usize> {
    let start = payload.as_ptr().addr() - envelope.as_ptr().addr();
    start..start + payload.len()
}
