//! Decoding of a delivery: its envelope, and its task.

use std::ops::Range;

use queue_core::{
    __private::{ENVELOPE_VERSION, Envelope},
    broker::{BuryReason, Delivery, Ending},
};

use super::Run;
use crate::{application::Known, letters::address};

impl Run {
    /// Reads the envelope. Buries a job whose envelope cannot be read, parks one with the envelope
    /// of a later release, and expires one that is late.
    pub(super) fn decode<'a>(&self, delivery: &'a Delivery) -> Result<Envelope<'a>, Ending> {
        let envelope = Envelope::decode(&delivery.envelope)
            .map_err(|error| Ending::Bury { reason: BuryReason::Undecodable, error: Some(error.to_string()) })?;
        if envelope.version > ENVELOPE_VERSION {
            // The name differs from that of the task. Otherwise this worker would claim the job
            // again.
            return Err(Ending::Park { task: format!("{}@v{}", envelope.task, envelope.version) });
        }
        // A job that may have committed is looked up first.
        let commits = || self.shared.application.task(&self.queue, &envelope.task).is_some_and(|known| known.handler.task.commits);
        if self.is_late(&envelope) && !commits() {
            return Err(Ending::Expire);
        }
        Ok(envelope)
    }

    /// Finds the task. A job with an unknown task is parked.
    pub(super) fn find(&self, envelope: &Envelope<'_>, delivery: &Delivery) -> Result<&Known, Ending> {
        self.shared.application.task(&self.queue, &envelope.task).ok_or_else(|| {
            let (job, task) = (address(&self.queue, &delivery.id), &*envelope.task);
            tracing::warn!(%job, task, "parked: this worker has no task of this name; a worker that has it runs the job");
            Ending::Park { task: task.to_owned() }
        })
    }
}

/// The position of the payload in the envelope.
pub(super) fn payload_range(envelope: &[u8], payload: &[u8]) -> Range<usize> {
    let start = payload.as_ptr().addr() - envelope.as_ptr().addr();
    start..start + payload.len()
}
