//! The stop of a worker: it stops claiming, drains, cancels the remaining handlers, and submits all
//! results.

use std::{
    mem,
    sync::atomic::Ordering,
    time::{Duration, Instant},
};

use futures_util::{
    FutureExt,
    stream::{FuturesUnordered, StreamExt},
};
use queue_core::{
    __private::exit_soon,
    CancelCause,
    broker::{Extend, Turn, WorkerMode},
};
use tokio::sync::watch;

use super::Pump;
use crate::{
    config::{LAST_DEEDS, LAST_TURNS, STUCK},
    letters::{self, address},
    shutdown::{Stage, Stopped},
    time::now,
};

/// The times of a stop.
pub(super) struct Stopping {
    /// The time at which handlers are cancelled, so that they can stop by the end of the grace
    /// time.
    notice: Instant,
    /// The end of the time that cancelled handlers have. A handler that runs longer is stuck.
    cancelling_since: Option<Instant>,
    /// Since when no handler runs.
    idle: Option<Instant>,
    /// Whether the worker no longer waits for running handlers.
    gave_up: bool,
}

pub(super) struct Stop {
    /// The requested stage.
    pub(super) stage: watch::Receiver<Stage>,
    /// The times of the stop. `None`: the worker is not stopping.
    pub(super) times: Option<Stopping>,
    pub(super) result: Stopped,
}

impl Stop {
    pub(super) fn new(stage: watch::Receiver<Stage>) -> Self {
        Stop { stage, times: None, result: Stopped::default() }
    }
}

impl Pump {
    /// Whether another stage can follow.
    pub(super) fn awaits_stage(&self) -> bool {
        self.stop.times.as_ref().is_none_or(|stopping| stopping.cancelling_since.is_none())
    }

    pub(super) fn check_stage(&mut self) {
        let stage = *self.stop.stage.borrow_and_update();
        let gone = self.stop.stage.has_changed().is_err();
        if stage == Stage::Running && !gone && self.request.mode != WorkerMode::Stopping {
            return;
        }
        let now = now();
        let settings = &self.shared.settings;
        let notice = now + (settings.grace - settings.notice());
        let stopping = self.stop.times.get_or_insert(Stopping { notice, cancelling_since: None, idle: None, gave_up: false });
        self.shared.status.stopping.store(true, Ordering::Relaxed);
        if stopping.cancelling_since.is_none() && (stage == Stage::Cancelling || gone || now >= stopping.notice) {
            stopping.cancelling_since = Some(now + settings.notice() + STUCK);
            self.cancel(CancelCause::Shutdown, |_| true);
        }
    }

    /// Whether the worker has stopped: no handler runs, or only handlers that cannot be stopped,
    /// and no ending can still be submitted.
    pub(super) fn is_done(&mut self) -> bool {
        if self.stop.times.is_none() {
            return false;
        }
        let running = self.slots.busy() > 0;
        let (owes, waits) = (self.unconfirmed() > 0, !self.turns.is_empty());
        let Some(stopping) = &mut self.stop.times else { return false };
        let now = now();
        let idle = if running { None } else { Some(*stopping.idle.get_or_insert(now)) };
        stopping.idle = idle;
        let given_up = stopping.cancelling_since.is_some_and(|end| now >= end);
        if running && given_up && !mem::replace(&mut stopping.gave_up, true) {
            self.abandon_stuck_handlers();
        }
        let Some(stopping) = &self.stop.times else { return false };
        // A process that is about to exit has less time.
        if (running && !given_up) || stopping.cancelling_since.is_some_and(|end| now >= end + self.last_turns()) {
            return !running || given_up;
        }
        // The wait for an unanswered claim is shorter than that for an ending.
        !owes && (!waits || idle.is_some_and(|idle| now >= idle + LAST_TURNS))
    }

    /// How long endings may be submitted after the worker has stopped waiting for handlers. A
    /// process that is about to exit has less time. With the time of
    /// [`release_lanes`](Self::release_lanes), it ends before it is
    /// [ended](crate::shutdown::stop_at_signal).
    fn last_turns(&self) -> Duration {
        match self.shared.settings.exit {
            Some(_) if self.stop.times.as_ref().is_some_and(|stopping| stopping.gave_up) => LAST_DEEDS / 2,
            Some(_) => LAST_TURNS / 2,
            None => LAST_TURNS,
        }
    }

    /// Logs the handlers that do not stop. If the process has to exit without them, schedules the
    /// exit.
    fn abandon_stuck_handlers(&self) {
        if let Some(code) = self.shared.settings.exit {
            exit_soon(LAST_DEEDS, code);
        }
        for held in self.slots.iter() {
            let Some(handler) = &held.handler else { continue };
            let (job, task) = (address(handler.context.queue(), &held.id), handler.context.task());
            tracing::error!(%job, task, "stuck: the handler did not stop, and the worker exits without it; the job runs again, uncharged, when its lease expires");
        }
    }

    /// The time of the next check.
    pub(super) fn next_stop_check(&self) -> Option<Instant> {
        let stopping = self.stop.times.as_ref()?;
        let now = now();
        let steps = [
            Some(stopping.notice).filter(|_| stopping.cancelling_since.is_none()),
            stopping.cancelling_since,
            stopping.cancelling_since.map(|end| end + self.last_turns()),
            stopping.idle.map(|idle| idle + LAST_TURNS),
        ];
        steps.into_iter().flatten().filter(|step| *step > now).min()
    }

    /// Endings that the broker has not confirmed.
    fn unconfirmed(&self) -> usize {
        self.queues.all.iter().flat_map(|queue| &queue.lanes).map(|lane| lane.finishes.len() + lane.sending).sum()
    }

    /// Ends the leases of lanes without jobs, so that no reclaimer waits for them. The other lanes
    /// report that their worker stops, so no crash is charged when their leases expire.
    pub(super) async fn release_lanes(mut self) -> Stopped {
        for held in self.slots.iter() {
            let lane = &self.queues[held.lane.queue].lanes[held.lane.lane];
            self.stop.result.stuck += u64::from(lane.generation == held.lane_generation);
        }
        self.stop.result.unconfirmed = self.unconfirmed() as u64;
        for queue in &mut self.queues.all {
            queue.lanes.iter_mut().for_each(|lane| letters::log_unconfirmed(&queue.name, &mut lane.burials));
        }
        let (load, mut reports_to) = (self.load(now()), self.heartbeat.reporter.map(|reporter| reporter.queue));
        let last = FuturesUnordered::new();
        for (index, queue) in self.queues.all.iter().enumerate() {
            for lane in &queue.lanes {
                let Some(name) = &lane.name else { continue };
                let (broker, is_used) = (self.shared.connection.broker.clone(), lane.is_used());
                let reports = reports_to.take_if(|queue| *queue == index).is_some();
                if reports || is_used {
                    let lease = if is_used { self.shared.settings.lease } else { Duration::ZERO };
                    let mut heartbeat = Extend::new(queue.name.clone(), name.clone(), lane.answered, lease);
                    heartbeat.leaving = is_used;
                    // Operators can see that it has stopped, and when.
                    let heartbeat = if reports { heartbeat.with_load(load) } else { heartbeat };
                    last.push(async move { drop(broker.extend(&[heartbeat]).await) }.boxed());
                } else {
                    let turn = Turn::new(queue.name.clone(), name.clone(), lane.answered + 1, Duration::ZERO);
                    last.push(async move { drop(broker.turn(&turn).await) }.boxed());
                }
            }
        }
        // This is optional. Without it the leases expire, and the history lacks the last seconds.
        let left = last.for_each(|()| std::future::ready(()));
        let _ = tokio::time::timeout(self.last_turns() * 2 / 5, futures_util::future::join(left, self.shared.history.send())).await;
        self.stop.result
    }
}
