//! A broker that writes down what a worker says to it and hears from it, around a real one.

use std::{
    fmt,
    sync::Arc,
    sync::atomic::{AtomicU32, Ordering},
};

use queue_core::{
    __private::Envelope,
    Result,
    broker::{
        self, Broker, DynBroker, Extend, Extended, OverdueLane, ScheduleAnswer, SetSchedule, Subscribe, Turn, TurnAnswer, Wrapper,
        subscription_address,
    },
};
use serde::{Deserialize, Serialize};

use crate::history::{Ending, Operation, Phase, Recorder, job_name};

/// Where a process kills itself.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Failpoint {
    /// Before it sends its n-th turn with finishes: handlers have ended, and nobody hears of it.
    BeforeFinish(u32),
    /// After its n-th turn has brought jobs, before any of them starts.
    AfterClaim(u32),
}

/// Writes down turns, heartbeats and fences.
pub struct RecordingBroker {
    inner: DynBroker,
    recorder: Recorder,
    failpoint: Option<Failpoint>,
    turns: AtomicU32,
    /// One tick in so many is sent late; 0: none.
    late_ticks: u32,
}

impl RecordingBroker {
    /// Wraps a broker.
    pub fn new(inner: DynBroker, recorder: Recorder, failpoint: Option<Failpoint>) -> Arc<Self> {
        RecordingBroker::with_late_ticks(inner, recorder, failpoint, 0)
    }

    /// The same, and one tick in so many is sent so late that its schedule was handed out to
    /// somebody else meanwhile.
    pub fn with_late_ticks(inner: DynBroker, recorder: Recorder, failpoint: Option<Failpoint>, late_ticks: u32) -> Arc<Self> {
        Arc::new(RecordingBroker { inner, recorder, failpoint, turns: AtomicU32::new(0), late_ticks })
    }

    /// Counts the turns that the failpoint is about, and ends the process at the one that it names.
    fn pass(&self, this: impl Fn(Failpoint) -> Option<u32>) {
        if self.failpoint.and_then(this).is_some_and(|n| self.turns.fetch_add(1, Ordering::SeqCst) + 1 == n) {
            std::process::abort();
        }
    }
}

/// The finishes of a turn, for the history.
fn finishes(turn: &Turn, phase: impl Fn(usize) -> Phase) -> impl Iterator<Item = (Phase, Operation)> {
    turn.finishes.iter().enumerate().map(move |(position, finish)| {
        let operation = Operation::Finish {
            id: job_name(&turn.queue, &finish.id),
            lane: turn.lane.to_string(),
            claim: finish.claim,
            seq: turn.seq,
            ending: ending(&finish.ending),
        };
        (phase(position), operation)
    })
}

/// The jobs of a change of a schedule, for the history.
fn ticks(request: &SetSchedule, phase: impl Fn(usize) -> Phase) -> impl Iterator<Item = (Phase, Operation)> {
    request.jobs.iter().enumerate().map(move |(position, tick)| {
        let tick_ms = Envelope::decode(&tick.job.envelope).ok().and_then(|envelope| envelope.tick_ms).unwrap_or(0);
        (phase(position), Operation::Tick { schedule: request.name.clone(), tick_ms, id: tick.job.id.to_string() })
    })
}

/// An ending without what comes along.
fn ending(ending: &broker::Ending) -> Ending {
    let ms = |delay: &std::time::Duration| u64::try_from(delay.as_millis()).unwrap_or(u64::MAX);
    match ending {
        broker::Ending::Ack { .. } => Ending::Ack,
        broker::Ending::Nack { delay, .. } => Ending::Nack { delay_ms: ms(delay) },
        broker::Ending::Snooze { delay } => Ending::Snooze { delay_ms: ms(delay) },
        broker::Ending::Repeat { delay } => Ending::Repeat { delay_ms: ms(delay) },
        broker::Ending::Bury { error, .. } => Ending::Bury { failed: error.is_some() },
        broker::Ending::Cancel { .. } => Ending::Cancel,
        broker::Ending::Expire => Ending::Expire,
        broker::Ending::Return | broker::Ending::Stopped { .. } => Ending::Return,
        broker::Ending::Park { .. } | broker::Ending::Unreadable { .. } => Ending::Park,
        _ => Ending::Void,
    }
}

impl fmt::Debug for RecordingBroker {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("RecordingBroker").field("inner", &self.inner).finish_non_exhaustive()
    }
}

impl Wrapper for RecordingBroker {
    fn inner(&self) -> &dyn Broker {
        &*self.inner
    }

    async fn subscribe(&self, request: &Subscribe) -> Result<bool> {
        let subscription = subscription_address(&request.name, &request.topic);
        let made = || Operation::Subscribe { subscription: subscription.clone(), begin: request.begin.into() };
        self.recorder.note(Phase::Invoke, made());
        let answer = self.inner.subscribe(request).await;
        let phase = match &answer {
            Ok(true) => Phase::Ok,
            // It was there: that it is made now is not said.
            Ok(false) => Phase::Fail,
            Err(_) => Phase::Unknown,
        };
        self.recorder.note(phase, made());
        answer
    }

    async fn turn(&self, turn: &Turn) -> Result<TurnAnswer> {
        if !turn.finishes.is_empty() {
            self.pass(|failpoint| if let Failpoint::BeforeFinish(n) = failpoint { Some(n) } else { None });
        }
        let asks = |phase| (turn.claim > 0).then(|| (phase, Operation::Ask { lane: turn.lane.to_string(), seq: turn.seq }));
        self.recorder.note_all(finishes(turn, |_| Phase::Invoke).chain(asks(Phase::Invoke)));
        let answer = match self.inner.turn(turn).await {
            Ok(answer) => answer,
            Err(error) => {
                // An earlier sending of the same turn may have arrived.
                self.recorder.note_all(finishes(turn, |_| Phase::Unknown));
                return Err(error);
            }
        };
        if !answer.deliveries.is_empty() {
            self.pass(|failpoint| if let Failpoint::AfterClaim(n) = failpoint { Some(n) } else { None });
        }
        let finished = finishes(turn, |position| if answer.stale.contains(&position) { Phase::Fail } else { Phase::Ok });
        let claims = answer.deliveries.iter().filter(|delivery| !delivery.void).map(|delivery| {
            let operation = Operation::Claim {
                id: job_name(&turn.queue, &delivery.id),
                lane: turn.lane.to_string(),
                claim: delivery.claim,
                at_ms: answer.now_ms,
                attempts: delivery.attempts,
                crashes: delivery.crashes,
            };
            (Phase::Ok, operation)
        });
        let renewed = (Phase::Ok, Operation::Renew { lane: turn.lane.to_string() });
        self.recorder.note_all(finished.chain(claims).chain([renewed]).chain(asks(Phase::Ok)));
        Ok(answer)
    }

    async fn set_schedule(&self, request: &SetSchedule) -> Result<ScheduleAnswer> {
        if self.late_ticks > 0 && fastrand::u32(..self.late_ticks) == 0 {
            tokio::time::sleep(broker::HANDED_OUT.mul_f64(1.0 + fastrand::f64())).await;
        }
        self.recorder.note_all(ticks(request, |_| Phase::Invoke));
        let answer = self.inner.set_schedule(request).await;
        let phase = |position: usize| match &answer {
            Ok(ScheduleAnswer::Set(stored)) if stored.get(position) == Some(&true) => Phase::Ok,
            Ok(ScheduleAnswer::Set(_)) => Phase::Fail,
            // An earlier sending of the same request may have arrived.
            Ok(_) | Err(_) => Phase::Unknown,
        };
        self.recorder.note_all(ticks(request, phase));
        answer
    }

    async fn extend(&self, lanes: &[Extend]) -> Vec<Result<Extended>> {
        // Whoever is late: it is seen whether that was asked for too late, or answered.
        let renew = |heartbeat: &Extend| Operation::Renew { lane: heartbeat.lane.to_string() };
        self.recorder.note_all(lanes.iter().map(|lane| (Phase::Invoke, renew(lane))));
        let answers = self.inner.extend(lanes).await;
        let renewed = lanes.iter().zip(&answers).filter(|(_, answer)| answer.is_ok());
        self.recorder.note_all(renewed.map(|(lane, _)| (Phase::Ok, renew(lane))));
        answers
    }

    async fn fence(&self, queue: &str, overdue: &[OverdueLane]) -> Result<Vec<bool>> {
        let fence = |lane: &OverdueLane| Operation::Fence { lane: lane.name.to_string() };
        self.recorder.note_all(overdue.iter().map(|lane| (Phase::Invoke, fence(lane))));
        let fenced = self.inner.fence(queue, overdue).await;
        let phase = |position: usize| match &fenced {
            Ok(fenced) if fenced.get(position) == Some(&true) => Phase::Ok,
            Ok(_) => Phase::Fail,
            Err(_) => Phase::Unknown,
        };
        self.recorder.note_all(overdue.iter().enumerate().map(|(position, lane)| (phase(position), fence(lane))));
        fenced
    }
}
