//! Claims and finishes jobs. One task on the broker's I/O thread owns the slots and the lanes of a
//! worker. All other parts send it messages, and it decides which requests to send.
//!
//! A turn submits the results that a lane has collected and requests jobs for free slots, which are
//! reserved until the answer. Results collect while turns are in flight, so batches grow with the
//! load. At low load, a result waits at most for the answer to another turn.
//!
//! `ask` handles requests of operators, `turns` sends turns, `endings` selects the results of a
//! turn, and `answers` processes the answers. `shares` divides the free slots among the queues,
//! `pace` sets the minimum size of a turn, `reason` is why a queue is polled, and `suspects`
//! selects the queue that may run a suspect. `clock` does timed work, and `stop` stops the worker.

mod answers;
mod ask;
mod clock;
mod endings;
mod heartbeat;
mod lane;
mod pace;
mod reason;
mod shares;
mod stop;
mod suspects;
mod turns;

use std::{
    collections::{BTreeMap, BTreeSet},
    mem,
    sync::Arc,
    time::{Duration, Instant},
};

use futures_util::{
    future::BoxFuture,
    stream::{FuturesUnordered, StreamExt},
};
use queue_core::{
    CancelCause, JobContext, JobId,
    broker::{Ending, Finish, WorkerMode},
};
use tokio::sync::{mpsc, watch};

use self::{
    answers::TurnDone,
    heartbeat::Beat,
    lane::{Lane, LaneId},
    pace::Pace,
    reason::Work,
    shares::Served,
    stop::Stopping,
    suspects::Suspects,
};
use crate::{
    config::QueueConfig,
    letters::Burial,
    messages::{Batch, Event, Ran, SlotId},
    outage::Waiting,
    shared::Shared,
    shutdown::{Stage, Stopped},
    time::now,
    tuning::{EVENTS, LANES, POLL},
    usage::Usage,
};

/// A job in a slot.
struct Held {
    generation: u64,
    lane: LaneId,
    lane_generation: u32,
    id: JobId,
    claim: u64,
    /// Bytes of its envelope.
    size: usize,
    /// Those before this one.
    attempts: u32,
    since: Instant,
    suspect: bool,
    handler: Option<Handler>,
    /// When and why it was cancelled.
    told: Option<(Instant, CancelCause)>,
    /// It did not stop; logged once.
    stuck: bool,
    /// How often its handler was polled, as seen last, and since when it is so.
    polls: (u32, Instant),
}

struct Handler {
    context: JobContext,
    isolation: bool,
}

/// A queue as the pump sees it.
struct QueueState {
    name: Arc<str>,
    lanes: Vec<Lane>,
    weight: u32,
    limit: usize,
    /// Slots that its jobs hold, or that are reserved for its turns.
    used: usize,
    /// Whether it may be claimed from: its first lane is registered. From the start on where there is one queue, or a strict order.
    introduced: bool,
    /// What is known of its work, and so why it is asked.
    work: Work,
    /// Since when a small turn is postponed.
    waits: Option<Instant>,
    /// Claims that are under way.
    claiming: usize,
    /// Whether an ending waits for a turn.
    dirty: bool,
    wake: Instant,
    served: Served,
    /// How many lanes it has, of all workers.
    workers: usize,
    parked: bool,
    resumed: Option<Instant>,
    /// The mode that the worker has last reported in this queue.
    said: WorkerMode,
}

impl QueueState {
    /// Whether there may be work: it gets free slots.
    fn is_hungry(&self) -> bool {
        self.introduced && self.work.reason().is_some()
    }

    /// Whether a claim could go: not where the turns of all lanes are on their way.
    fn can_send(&self) -> bool {
        self.lanes.len() < LANES || self.lanes.iter().any(|lane| !lane.in_flight)
    }
}

/// It does not work in passes: turns, heartbeats and checks are concurrent, and a pass that waited
/// for one would delay the others. It is not restarted either: its knowledge of the slots and lanes
/// is lost in a crash, and the worker ends.
pub(crate) struct Pump {
    shared: Arc<Shared>,
    queues: Vec<QueueState>,
    slots: Vec<Option<Held>>,
    free: Vec<usize>,
    /// Slots that are reserved for turns in flight.
    reserved: usize,
    /// Jobs that hold no slot any more and that the broker may still hold for this worker: endings that wait for a turn, and what
    /// turns on their way end or claim. Without those of lanes that are late.
    unanswered: usize,
    next_generation: u64,
    suspects: Suspects,
    /// The queues whose first lanes are still to be registered, and those that are being so, since when.
    strangers: Vec<usize>,
    introducing: Vec<(Instant, usize)>,
    wakes: BTreeSet<(Instant, usize)>,
    /// The queues that are `dirty`.
    dirty: Vec<usize>,
    /// How far the queue is that was served least.
    least_served: Served,
    pace: Pace,
    /// Since when the distribution of a few free slots is postponed.
    sharing_waits: Option<Instant>,
    received: mpsc::UnboundedReceiver<Event>,
    batches: mpsc::UnboundedSender<Batch>,
    stage: watch::Receiver<Stage>,
    turns: FuturesUnordered<BoxFuture<'static, TurnDone>>,
    beats: FuturesUnordered<BoxFuture<'static, (Instant, Vec<Beat>)>>,
    /// The latest beats have no answer.
    silent: Option<Waiting>,
    /// Since when the broker answers beats with a refusal that does not pass by itself.
    refused: Option<Instant>,
    /// Polls of calm queues: which, and whether it is still calm.
    looks: FuturesUnordered<BoxFuture<'static, (usize, bool)>>,
    beat_at: Instant,
    /// The lane that reports the load of the worker.
    speaker: Option<LaneId>,
    usage: Usage,
    /// How people have asked it to work, and the number of the last request that it has taken in.
    mode: WorkerMode,
    heard: u64,
    tick_at: Instant,
    /// Which tasks were reported to block their runtime, and when.
    blockers: BTreeMap<String, Instant>,
    stopping: Option<Stopping>,
    stopped: Stopped,
}

impl Pump {
    pub(crate) fn new(
        shared: Arc<Shared>,
        configs: Vec<QueueConfig>,
        received: mpsc::UnboundedReceiver<Event>,
        batches: mpsc::UnboundedSender<Batch>,
        stage: watch::Receiver<Stage>,
    ) -> Self {
        let now = now();
        let capacity = shared.settings.concurrency;
        // A single queue waits for no other, and in strict order no queue is skipped because
        // another is faster.
        let introduces = configs.len() > 1 && !shared.settings.strict_order;
        let queues = configs.into_iter().enumerate().map(|(index, config)| QueueState {
            name: shared.queues[index].name.clone(),
            lanes: Vec::new(),
            weight: config.weight,
            limit: config.limit.unwrap_or(capacity),
            used: 0,
            introduced: !introduces,
            work: Work::new(),
            waits: None,
            claiming: 0,
            dirty: false,
            wake: now + POLL,
            served: 0,
            workers: 0,
            parked: false,
            resumed: None,
            said: WorkerMode::Works,
        });
        let queues: Vec<QueueState> = queues.collect();
        Pump {
            strangers: if introduces { (0..queues.len()).rev().collect() } else { Vec::new() },
            introducing: Vec::new(),
            wakes: queues.iter().enumerate().map(|(index, queue)| (queue.wake, index)).collect(),
            queues,
            slots: (0..capacity).map(|_| None).collect(),
            free: (0..capacity).rev().collect(),
            reserved: 0,
            unanswered: 0,
            next_generation: 0,
            suspects: Suspects::default(),
            dirty: Vec::new(),
            least_served: 0,
            pace: Pace::new(capacity),
            sharing_waits: None,
            received,
            batches,
            stage,
            turns: FuturesUnordered::new(),
            beats: FuturesUnordered::new(),
            silent: None,
            refused: None,
            looks: FuturesUnordered::new(),
            beat_at: now + shared.settings.beat(),
            speaker: None,
            usage: Usage::begin(now),
            mode: WorkerMode::Works,
            heard: 0,
            tick_at: now + shared.settings.tick(),
            blockers: BTreeMap::new(),
            stopping: None,
            stopped: Stopped::default(),
            shared,
        }
    }

    /// Runs until the worker has stopped.
    pub(crate) async fn run(mut self) -> Stopped {
        let alarm = self.shared.connection.broker.alarm();
        loop {
            self.look_at_stage();
            if self.is_done() {
                return self.leave().await;
            }
            self.plan();
            let wake = self.next_wake();
            tokio::select! {
                // In this order, so that a simulation can be replayed. Only events come without end, and they are last.
                biased;
                _ = self.stage.changed(), if self.listens() => {}
                Some((sent, beats)) = self.beats.next() => self.beats_ended(sent, beats),
                Some(done) = self.turns.next() => self.turn_ended(done),
                Some((queue, calm)) = self.looks.next() => self.looked(queue, calm),
                Some(event) = self.received.recv() => self.take_events(event),
                () = alarm.until(wake) => {}
            }
            self.look_at_clock();
        }
    }

    fn take_events(&mut self, first: Event) {
        let now = now();
        let mut next = Some(first);
        let mut left = EVENTS;
        while let Some(event) = next.take() {
            match event {
                Event::Ended { slot, ending, ran } => self.ended(slot, ending, ran, now),
                Event::Begun { slot, context, isolation } => self.begun(slot, context, isolation),
                Event::News => self.beat_soon(now),
                Event::Hint { queue, due: None, as_of } => self.queues[queue].work.announced(as_of),
                Event::Hint { queue, due: Some(due), .. } => {
                    self.queues[queue].work.stirs();
                    self.wake_by(queue, due);
                }
            }
            left -= 1;
            if left > 0 {
                next = self.received.try_recv().ok();
            }
        }
    }

    fn begun(&mut self, slot: SlotId, context: JobContext, isolation: bool) {
        let Some(held) = self.slots[slot.index].as_mut().filter(|held| held.generation == slot.generation) else {
            context.cancel(CancelCause::LeaseLost);
            return;
        };
        if let Some((_, cause)) = held.told {
            context.cancel(cause);
        }
        self.shared.history.begun(held.lane.queue, context.task());
        held.handler = Some(Handler { context, isolation });
    }

    fn ended(&mut self, slot: SlotId, ending: Ending, ran: Option<Ran>, now: Instant) {
        let Some(held) = self.slots[slot.index].take_if(|held| held.generation == slot.generation) else { return };
        self.free.push(slot.index);
        self.pace.ended(now.saturating_duration_since(held.since));
        self.queues[held.lane.queue].used -= 1;
        if held.suspect {
            self.suspects.ended();
            self.look_for_suspects();
        }
        let queue = &mut self.queues[held.lane.queue];
        if held.handler.is_some() {
            self.stopped.finished += 1;
            if self.stopping.is_some() && matches!(ending, Ending::Release | Ending::Stopped { .. }) {
                self.stopped.released += 1;
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
        self.unanswered += usize::from(!lane.late);
        lane.finishes.push(Finish { id: held.id, claim: held.claim, size: held.size, ending, used });
        self.soil(held.lane.queue);
    }

    /// An ending of this queue waits for a turn.
    fn soil(&mut self, queue: usize) {
        if !mem::replace(&mut self.queues[queue].dirty, true) {
            self.dirty.push(queue);
        }
    }

    /// Cancels the handlers of the slots that `which` selects.
    fn cancel(&mut self, cause: CancelCause, which: impl Fn(&Held) -> bool) {
        for held in self.slots.iter_mut().flatten().filter(|held| which(held)) {
            held.told.get_or_insert((now(), cause));
            if let Some(handler) = &held.handler {
                handler.context.cancel(cause);
            }
        }
    }
}

/// A time so far ahead that it does not come.
fn far() -> Duration {
    Duration::from_secs(60)
}
