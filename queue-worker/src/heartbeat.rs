//! Renews the leases of all lanes, and hears of jobs that were cancelled. It runs with the pump, on the broker's I/O thread:
//! a handler that blocks every thread of its runtime does not lose its job. It is no duty of its own: the lanes are the pump's, which
//! gathers the beats that are [`due`], [`send`]s them, and takes in what they report.

use std::{sync::Arc, time::Instant};

use queue_core::{
    Error,
    broker::{Extend, Extended},
};

use crate::{engine::Shared, lane::LaneId, pump::QueueState, time::now};

/// One beat of one lane, and what came of it.
pub(crate) struct Beat {
    pub(crate) lane: LaneId,
    pub(crate) generation: u32,
    pub(crate) answer: Result<Extended, Error>,
}

/// A beat for every lane that holds something, or has a turn on its way: that one may have been carried out, and its reply
/// lost with the jobs that it brought. An idle lane may lapse: it registers again when it is needed.
pub(crate) fn due(queues: &[QueueState], shared: &Shared) -> Vec<(LaneId, u32, Extend)> {
    let mut beats = Vec::new();
    for (queue, state) in queues.iter().enumerate() {
        for (lane, entry) in state.lanes.iter().enumerate() {
            if let Some(name) = &entry.name
                && (entry.held > 0 || entry.in_flight || !entry.finishes.is_empty())
            {
                let extend = Extend::new(state.name.clone(), name.clone(), entry.answered, shared.settings.lease);
                beats.push((LaneId { queue, lane }, entry.generation, extend));
            }
        }
    }
    beats
}

/// Sends the beats of one tick. Its answers say from when on the renewed leases count.
pub(crate) async fn send(shared: Arc<Shared>, beats: Vec<(LaneId, u32, Extend)>) -> (Instant, Vec<Beat>) {
    let sent = now();
    let requests: Vec<Extend> = beats.iter().map(|(_, _, extend)| extend.clone()).collect();
    let answers = shared.broker.extend(&requests).await;
    let beats: Vec<Beat> =
        beats.into_iter().zip(answers).map(|((lane, generation, _), answer)| Beat { lane, generation, answer }).collect();
    if beats.iter().any(|beat| beat.answer.is_ok()) {
        shared.heard();
    }
    (sent, beats)
}
