//! Renews the leases of all lanes, and receives the cancels of jobs. It runs with the pump, on the
//! broker's I/O thread, so a handler that blocks every thread of its runtime does not lose its job.
//! It is not a separate duty, because the pump owns the lanes.

use std::{
    sync::Arc,
    time::{Duration, Instant},
};

use futures_util::{future::BoxFuture, stream::FuturesUnordered};
use queue_core::{
    CancelCause, Error,
    broker::{Extend, Extended, WorkerAsk, WorkerLoad, WorkerMode},
};

use super::{Pump, lane::LaneId, queues::QueueState};
use crate::{connection::Connection, metrics, outage::Waiting, time::now, tuning::NEWS_APART, usage::Usage};

pub(super) struct Heartbeat {
    /// When the next heartbeats are sent.
    pub(super) at: Instant,
    pub(super) in_flight: FuturesUnordered<BoxFuture<'static, (Instant, Vec<HeartbeatAnswer>)>>,
    /// Set while the latest heartbeats have no answer.
    unanswered: Option<Waiting>,
    /// Since when the broker rejects heartbeats with an error that waiting does not resolve.
    refused: Option<Instant>,
    /// The lane that reports the load of the worker.
    pub(super) reporter: Option<LaneId>,
    usage: Usage,
}

impl Heartbeat {
    pub(super) fn new(now: Instant, heartbeat: Duration) -> Self {
        Heartbeat {
            at: now + heartbeat,
            in_flight: FuturesUnordered::new(),
            unanswered: None,
            refused: None,
            reporter: None,
            usage: Usage::begin(now),
        }
    }

    /// Sends the next heartbeats at once, but at least [`NEWS_APART`] after the last ones.
    pub(super) fn send_soon(&mut self, now: Instant, heartbeat: Duration) {
        let last = self.at.checked_sub(heartbeat).unwrap_or(now);
        self.at = self.at.min(now.max(last + NEWS_APART));
    }
}

impl Pump {
    /// Sends the heartbeats that are due.
    pub(super) fn send_heartbeats(&mut self, now: Instant) {
        if now < self.heartbeat.at {
            return;
        }
        self.heartbeat.at = now + self.shared.settings.heartbeat_interval();
        let due = self.due_heartbeats(now);
        // A heartbeat without an answer is not sent again. It ends at its deadline.
        if due.is_empty() {
            self.heartbeat.unanswered = None;
        } else if self.heartbeat.in_flight.len() < 2 {
            self.heartbeat.in_flight.push(Box::pin(send(self.shared.connection.clone(), due)));
        }
    }

    fn due_heartbeats(&mut self, now: Instant) -> Vec<(LaneId, u32, Extend)> {
        self.heartbeat.reporter = reporter(&self.queues.all, self.heartbeat.reporter);
        let load = self.load(now);
        let reporters = reporters(&self.queues.all, self.heartbeat.reporter, load.mode);
        due(&self.queues.all, self.shared.settings.lease, &reporters, load)
    }

    /// The record of the worker.
    pub(super) fn load(&mut self, now: Instant) -> WorkerLoad {
        let load = self.heartbeat.usage.load(self.slots.busy(), self.slots.len(), now).working(self.mode(), self.request.number);
        metrics::used(&load);
        load
    }

    /// Sends the first heartbeat of the reporter after the first registration. A worker cannot be
    /// controlled before its first report.
    pub(super) fn send_first_heartbeat(&mut self) {
        if self.heartbeat.reporter.is_none() && self.stop.times.is_none() {
            let mut due = self.due_heartbeats(now());
            due.retain(|(_, _, extend)| extend.load.is_some());
            if !due.is_empty() {
                self.heartbeat.in_flight.push(Box::pin(send(self.shared.connection.clone(), due)));
            }
        }
    }

    pub(super) fn heartbeats_ended(&mut self, sent: Instant, heartbeats: Vec<HeartbeatAnswer>) {
        let (lanes, mut unanswered, mut asked) = (heartbeats.len(), None, None);
        let turns = self.request.mode == WorkerMode::Works;
        for HeartbeatAnswer { lane: id, generation, mode, answer } in heartbeats {
            if let (Some(mode), true) = (mode, answer.is_ok()) {
                self.queues[id.queue].reported_mode = mode;
            }
            let lane = &mut self.queues[id.queue].lanes[id.lane];
            if lane.generation != generation {
                continue;
            }
            match answer {
                Ok(extended) => {
                    // The turns of an idle lane keep it alive. They also report new jobs of its
                    // queue.
                    if lane.is_used() || !turns {
                        lane.lease.set((sent + self.shared.settings.lease).max(lane.lease.until()));
                    }
                    // Several queues may have requests for this worker, if it has sent reports in
                    // each of them.
                    asked = asked.into_iter().chain(extended.asked).max_by_key(|ask: &WorkerAsk| ask.number);
                    for (job, claim) in extended.cancelled {
                        self.cancel(CancelCause::Cancelled, |held| held.lane == id && held.claim == claim && held.id == job);
                    }
                }
                Err(Error::Forgotten(_)) => self.lane_forgotten(id),
                Err(error) => {
                    let (count, _) = unanswered.get_or_insert((0, error));
                    *count += 1;
                }
            }
        }
        if let Some(ask) = asked {
            self.apply_request(&ask);
        }
        // One line for all lanes.
        match unanswered {
            Some((count, error)) if error.is_transient() => {
                self.heartbeat.unanswered.get_or_insert_with(|| self.shared.connection.outage.begin_waiting(sent, &error));
                tracing::debug!(leases = count, of = lanes, %error, "leases were not renewed");
            }
            Some((count, error)) => {
                self.heartbeat.unanswered = None;
                self.shared.connection.outage.answered();
                let broker = self.shared.connection.broker.info().location;
                match self.heartbeat.refused {
                    Some(_) => tracing::debug!(broker, leases = count, of = lanes, %error, "leases were not renewed"),
                    None => {
                        self.heartbeat.refused = Some(now());
                        tracing::warn!(broker, leases = count, of = lanes, %error, "leases were not renewed; the worker retries with each heartbeat");
                    }
                }
            }
            None => {
                self.heartbeat.unanswered = None;
                self.shared.connection.outage.answered();
                if let Some(since) = self.heartbeat.refused.take() {
                    let lasted = now().saturating_duration_since(since);
                    tracing::warn!(broker = self.shared.connection.broker.info().location, ?lasted, "leases are renewed again");
                }
            }
        }
    }
}

/// One heartbeat of one lane, and its answer.
pub(super) struct HeartbeatAnswer {
    pub(super) lane: LaneId,
    pub(super) generation: u32,
    /// The mode of the worker, if the heartbeat carries it.
    pub(super) mode: Option<WorkerMode>,
    pub(super) answer: Result<Extended, Error>,
}

/// The heartbeats that are due. A lane sends one if it holds a job or an ending, or has a turn in
/// flight. The turn may have been carried out although its answer, with the claimed jobs, is lost.
/// The lease of an idle lane may expire: the lane registers again when it is needed. The reporter
/// sends every heartbeat, with the load of the worker. `reporters` has the reporting lanes by
/// queue.
fn due(queues: &[QueueState], lease: Duration, reporters: &[Option<usize>], load: WorkerLoad) -> Vec<(LaneId, u32, Extend)> {
    let mut heartbeats = Vec::new();
    for (queue, state) in queues.iter().enumerate() {
        for (lane, entry) in state.lanes.iter().enumerate() {
            let (id, reports) = (LaneId { queue, lane }, reporters[queue] == Some(lane));
            if let Some(name) = &entry.name
                && (entry.is_used() || reports)
            {
                let extend = Extend::new(state.name.clone(), name.clone(), entry.answered, lease);
                let extend = if reports { extend.with_load(load) } else { extend };
                heartbeats.push((id, entry.generation, extend));
            }
        }
    }
    heartbeats
}

/// The lane whose heartbeats report the load of the worker: the last reporter while it is
/// registered, else the first registered lane.
fn reporter(queues: &[QueueState], last: Option<LaneId>) -> Option<LaneId> {
    let is_named = |id: &LaneId| queues[id.queue].lanes[id.lane].name.is_some();
    let lanes = |(queue, state): (usize, &QueueState)| (0..state.lanes.len()).map(move |lane| LaneId { queue, lane }).collect::<Vec<_>>();
    last.filter(is_named).or_else(|| queues.iter().enumerate().flat_map(lanes).find(is_named))
}

/// The lanes whose heartbeats carry a mode, by queue: the reporter, and one lane of every queue in
/// which the worker is not working, or last reported that it was not. Without turns, its idle lanes
/// there would expire.
fn reporters(queues: &[QueueState], reporter: Option<LaneId>, mode: WorkerMode) -> Vec<Option<usize>> {
    let of = |(queue, state): (usize, &QueueState)| match reporter {
        Some(reporter) if reporter.queue == queue => Some(reporter.lane),
        _ if mode == WorkerMode::Works && state.reported_mode == WorkerMode::Works => None,
        _ => state.lanes.iter().position(|lane| lane.name.is_some()),
    };
    queues.iter().enumerate().map(of).collect()
}

/// Sends the heartbeats of one tick. The returned time is the start of the renewed leases.
async fn send(connection: Arc<Connection>, heartbeats: Vec<(LaneId, u32, Extend)>) -> (Instant, Vec<HeartbeatAnswer>) {
    let sent = now();
    let requests: Vec<Extend> = heartbeats.iter().map(|(_, _, extend)| extend.clone()).collect();
    let answers = connection.broker.extend(&requests).await;
    let heartbeats: Vec<HeartbeatAnswer> = heartbeats
        .into_iter()
        .zip(answers)
        .map(|((lane, generation, extend), answer)| HeartbeatAnswer { lane, generation, mode: extend.load.map(|load| load.mode), answer })
        .collect();
    if heartbeats.iter().any(|heartbeat| heartbeat.answer.is_ok()) {
        connection.answered();
    }
    (sent, heartbeats)
}
