//! Renews the leases of all lanes, and receives the cancels of jobs. It runs with the pump, on the
//! broker's I/O thread, so a handler that blocks every thread of its runtime does not lose its job.
//! It is not a separate duty, because the pump owns the lanes: the pump collects the heartbeats
//! that are [`due`], [`send`]s them, and processes their answers.

use std::{
    sync::Arc,
    time::{Duration, Instant},
};

use queue_core::{
    Error,
    broker::{Extend, Extended, WorkerLoad, WorkerMode},
};

use super::{QueueState, lane::LaneId};
use crate::{connection::Connection, time::now};

/// One beat of one lane, and what came of it.
pub(super) struct Beat {
    pub(super) lane: LaneId,
    pub(super) generation: u32,
    /// The mode of the worker, if the heartbeat carries it.
    pub(super) said: Option<WorkerMode>,
    pub(super) answer: Result<Extended, Error>,
}

/// A beat for every lane that holds something, or has a turn on its way: that one may have been
/// carried out, and its reply lost with the jobs that it brought. An idle lane may lapse: it
/// registers again when it is needed. One lane, the speaker, always sends heartbeats, which carry
/// the load of the worker: `speakers` has its number, by queue.
pub(super) fn due(queues: &[QueueState], lease: Duration, speakers: &[Option<usize>], load: WorkerLoad) -> Vec<(LaneId, u32, Extend)> {
    let mut beats = Vec::new();
    for (queue, state) in queues.iter().enumerate() {
        for (lane, entry) in state.lanes.iter().enumerate() {
            let (id, speaks) = (LaneId { queue, lane }, speakers[queue] == Some(lane));
            if let Some(name) = &entry.name
                && (entry.is_used() || speaks)
            {
                let extend = Extend::new(state.name.clone(), name.clone(), entry.answered, lease);
                let extend = if speaks { extend.saying(load) } else { extend };
                beats.push((id, entry.generation, extend));
            }
        }
    }
    beats
}

/// The lane that speaks for the worker: the one that has done so last, as long as it is registered, else the first that is.
pub(super) fn speaker(queues: &[QueueState], last: Option<LaneId>) -> Option<LaneId> {
    let is_named = |id: &LaneId| queues[id.queue].lanes[id.lane].name.is_some();
    let lanes = |(queue, state): (usize, &QueueState)| (0..state.lanes.len()).map(move |lane| LaneId { queue, lane }).collect::<Vec<_>>();
    last.filter(is_named).or_else(|| queues.iter().enumerate().flat_map(lanes).find(is_named))
}

/// The lanes whose heartbeats carry a mode, by queue: that of the speaker, and one of every queue
/// in which the worker is not, or was last not, working. Its idle lanes there would lapse, as it
/// sends no turns.
pub(super) fn speakers(queues: &[QueueState], speaker: Option<LaneId>, mode: WorkerMode) -> Vec<Option<usize>> {
    let of = |(queue, state): (usize, &QueueState)| match speaker {
        Some(speaker) if speaker.queue == queue => Some(speaker.lane),
        _ if mode == WorkerMode::Works && state.said == WorkerMode::Works => None,
        _ => state.lanes.iter().position(|lane| lane.name.is_some()),
    };
    queues.iter().enumerate().map(of).collect()
}

/// Sends the beats of one tick. Its answers have the time from which the renewed leases count.
pub(super) async fn send(connection: Arc<Connection>, beats: Vec<(LaneId, u32, Extend)>) -> (Instant, Vec<Beat>) {
    let sent = now();
    let requests: Vec<Extend> = beats.iter().map(|(_, _, extend)| extend.clone()).collect();
    let answers = connection.broker.extend(&requests).await;
    let beats: Vec<Beat> = beats
        .into_iter()
        .zip(answers)
        .map(|((lane, generation, extend), answer)| Beat { lane, generation, said: extend.load.map(|load| load.mode), answer })
        .collect();
    if beats.iter().any(|beat| beat.answer.is_ok()) {
        connection.answered();
    }
    (sent, beats)
}
