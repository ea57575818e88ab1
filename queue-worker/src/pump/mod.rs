//! Claims and finishes jobs. One task on the broker's I/O thread owns the slots and the lanes of a
//! worker. All other parts send it messages, and it decides which requests to send.
//!
//! A turn submits the results that a lane has collected and requests jobs for free slots, which are
//! reserved until the answer. Results collect while turns are in flight, so batches grow with the
//! load. At low load, a result waits at most for the answer to another turn.
//!
//! `slots` has the running jobs. `queues` and `lane` have the state of each queue and lane. `ask`
//! handles requests of operators, `turns` sends turns, `endings` selects the results of a turn, and
//! `answers` processes the answers. `shares` divides the free slots among the queues, `pace` sets
//! the minimum size of a turn, `reason` is why a queue is polled, and `suspects` selects the queue
//! that may run a suspect. `clock` does timed work, `heartbeat` renews leases, `watchdog` finds
//! handlers that do not stop, and `stop` stops the worker.

mod answers;
mod ask;
mod clock;
mod endings;
mod heartbeat;
mod lane;
mod pace;
mod queues;
mod reason;
mod shares;
mod slots;
mod stop;
mod suspects;
mod turns;
mod watchdog;

use std::{
    sync::Arc,
    time::{Duration, Instant},
};

use futures_util::{
    future::BoxFuture,
    stream::{FuturesUnordered, StreamExt},
};
use queue_core::{
    CancelCause, JobContext,
    broker::{Ending, Finish},
};
use tokio::sync::{mpsc, watch};

use self::{
    answers::TurnDone,
    ask::Request,
    heartbeat::Heartbeat,
    pace::Pace,
    queues::Queues,
    slots::{Handler, Held, Slots},
    stop::Stop,
    suspects::Suspects,
    watchdog::Watchdog,
};
use crate::{
    config::QueueConfig,
    letters::Burial,
    messages::{Batch, Event, Ran, SlotId},
    shared::Shared,
    shutdown::{Stage, Stopped},
    time::now,
    tuning::EVENTS,
};

/// The pump does not work in passes: turns, heartbeats and checks are concurrent, and a pass that
/// waited for one would delay the others. The pump is not restarted. A crash destroys its state of
/// slots and lanes, and the worker ends.
pub(crate) struct Pump {
    shared: Arc<Shared>,
    queues: Queues,
    slots: Slots,
    suspects: Suspects,
    pace: Pace,
    heartbeat: Heartbeat,
    /// The last request of an operator.
    request: Request,
    watchdog: Watchdog,
    stop: Stop,
    events: mpsc::UnboundedReceiver<Event>,
    batches: mpsc::UnboundedSender<Batch>,
    turns: FuturesUnordered<BoxFuture<'static, TurnDone>>,
    /// Polls of calm queues. Each returns the index of the queue, and whether the queue is still
    /// calm.
    polls: FuturesUnordered<BoxFuture<'static, (usize, bool)>>,
}

impl Pump {
    pub(crate) fn new(
        shared: Arc<Shared>,
        configs: Vec<QueueConfig>,
        events: mpsc::UnboundedReceiver<Event>,
        batches: mpsc::UnboundedSender<Batch>,
        stage: watch::Receiver<Stage>,
    ) -> Self {
        let (settings, now) = (&shared.settings, now());
        Pump {
            queues: Queues::new(configs, &shared.queues, settings),
            slots: Slots::new(settings.concurrency),
            suspects: Suspects::default(),
            pace: Pace::new(settings.concurrency),
            heartbeat: Heartbeat::new(now, settings.heartbeat_interval()),
            request: Request::default(),
            watchdog: Watchdog::new(now + settings.tick()),
            stop: Stop::new(stage),
            events,
            batches,
            turns: FuturesUnordered::new(),
            polls: FuturesUnordered::new(),
            shared,
        }
    }

    /// Runs until the worker has stopped.
    pub(crate) async fn run(mut self) -> Stopped {
        let alarm = self.shared.connection.broker.alarm();
        loop {
            self.check_stage();
            if self.is_done() {
                return self.release_lanes().await;
            }
            self.plan();
            let wake = self.next_wake();
            tokio::select! {
                // The order is fixed, so that a simulation can be replayed. Events are last,
                // because only they can arrive without a pause.
                biased;
                _ = self.stop.stage.changed(), if self.awaits_stage() => {}
                Some((sent, heartbeats)) = self.heartbeat.in_flight.next() => self.heartbeats_ended(sent, heartbeats),
                Some(done) = self.turns.next() => self.turn_ended(done),
                Some((queue, calm)) = self.polls.next() => self.poll_ended(queue, calm),
                Some(event) = self.events.recv() => self.handle_events(event),
                () = alarm.until(wake) => {}
            }
            self.run_timers();
        }
    }

    fn handle_events(&mut self, first: Event) {
        let now = now();
        let mut next = Some(first);
        let mut left = EVENTS;
        while let Some(event) = next.take() {
            match event {
                Event::Ended { slot, ending, ran } => self.ended(slot, ending, ran, now),
                Event::Begun { slot, context, isolation } => self.begun(slot, context, isolation),
                Event::News => self.heartbeat.send_soon(now, self.shared.settings.heartbeat_interval()),
                Event::Hint { queue, due: None, as_of } => self.queues[queue].work.announced(as_of),
                Event::Hint { queue, due: Some(due), .. } => {
                    self.queues[queue].work.end_calm();
                    self.queues.wake_by(queue, due);
                }
            }
            left -= 1;
            if left > 0 {
                next = self.events.try_recv().ok();
            }
        }
    }

    fn begun(&mut self, slot: SlotId, context: JobContext, isolation: bool) {
        let Some(held) = self.slots.get_mut(slot) else {
            context.cancel(CancelCause::LeaseLost);
            return;
        };
        if let Some((_, cause)) = held.cancelled {
            context.cancel(cause);
        }
        self.shared.history.begun(held.lane.queue, context.task());
        held.handler = Some(Handler { context, isolation });
    }

    fn ended(&mut self, slot: SlotId, ending: Ending, ran: Option<Ran>, now: Instant) {
        let Some(held) = self.slots.release(slot) else { return };
        self.pace.ended(now.saturating_duration_since(held.since));
        self.queues[held.lane.queue].used -= 1;
        if held.suspect {
            self.suspects.ended();
            self.poll_for_suspect();
        }
        let queue = &mut self.queues[held.lane.queue];
        if held.handler.is_some() {
            self.stop.result.finished += 1;
            if self.stop.times.is_some() && matches!(ending, Ending::Return | Ending::Stopped { .. }) {
                self.stop.result.returned += 1;
            }
        }
        let lane = &mut queue.lanes[held.lane.lane];
        let lost = lane.generation != held.lane_generation;
        let task = held.handler.as_ref().map(|handler| handler.context.task());
        self.shared.history.ended(held.lane.queue, task, &held.id, ran, &ending, lost);
        if lost {
            return;
        }
        lane.held -= 1;
        let used = held.handler.as_ref().and_then(|handler| handler.context.used());
        if matches!(ending, Ending::Bury { .. }) {
            let task = held.handler.map(|handler| handler.context.task().to_owned());
            let attempts = held.attempts.saturating_add(1);
            lane.burials.push(Burial { id: held.id.clone(), claim: held.claim, task, attempts });
        }
        self.slots.unanswered += usize::from(!lane.late);
        lane.finishes.push(Finish { id: held.id, claim: held.claim, size: held.size, ending, used });
        self.queues.mark_dirty(held.lane.queue);
    }

    /// Cancels the handlers of the slots that `which` selects.
    fn cancel(&mut self, cause: CancelCause, which: impl Fn(&Held) -> bool) {
        for held in self.slots.iter_mut().filter(|held| which(held)) {
            held.cancelled.get_or_insert((now(), cause));
            if let Some(handler) = &held.handler {
                handler.context.cancel(cause);
            }
        }
    }
}

/// A time that is too far in the future to be reached.
fn far_future() -> Duration {
    Duration::from_secs(60)
}
