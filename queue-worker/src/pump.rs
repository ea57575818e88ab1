//! Claims and finishes. One task on the broker's I/O thread owns the slots and the lanes of a worker; everything else tells it
//! what happened, and it decides what is sent.
//!
//! A turn carries the endings that a lane has gathered and asks for jobs for free slots, which are reserved until it is
//! answered. While turns are in flight, endings gather; so batches grow with the load, and at low load nothing waits.

use std::{
    collections::BTreeSet,
    mem,
    sync::Arc,
    time::{Duration, Instant},
};

use futures_util::{
    future::BoxFuture,
    stream::{FuturesUnordered, StreamExt},
};
use queue_core::{
    JobContext, JobId,
    broker::{Ending, Finish, MAX_ITEMS, PartyName, Turn, TurnAnswer},
    context::CancelCause,
};
use tokio::sync::{mpsc, watch};

use crate::{
    config::QueueConfig,
    engine::Shared,
    executor::{Batch, CANCEL_GRACE},
    heartbeat::{self, Beat},
    lane::{LANES, Lane, LaneId, TurnDraft, TurnEnd, settle},
    shutdown::Stage,
    worker::Stopped,
};

/// What the pump is told.
pub(crate) enum Event {
    /// A handler begins; from now on it can be cancelled.
    Begun { slot: SlotId, context: JobContext, timeout: Option<Duration>, isolation: bool },
    /// A delivery has its ending.
    Ended { slot: SlotId, ending: Ending },
    /// The broker announces work, now or at this time.
    Hint { queue: usize, due: Option<Instant> },
}

/// A slot, and which of its jobs in turn.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct SlotId {
    index: usize,
    generation: u64,
}

/// A job in a slot.
struct Held {
    generation: u64,
    lane: LaneId,
    lane_generation: u32,
    id: JobId,
    claim: u64,
    suspect: bool,
    handler: Option<Handler>,
    /// Told before its handler began.
    cancelled: Option<CancelCause>,
}

struct Handler {
    context: JobContext,
    deadline: Option<Instant>,
    isolation: bool,
    stuck: bool,
}

/// A queue as the pump sees it.
pub(crate) struct QueueState {
    pub(crate) name: Arc<str>,
    pub(crate) lanes: Vec<Lane>,
    weight: i64,
    limit: usize,
    /// Slots that its jobs hold, or that are reserved for its turns.
    used: usize,
    /// Whether there may be work: it gets free slots.
    hungry: bool,
    /// Whether an ending waits for a turn.
    dirty: bool,
    wake: Instant,
    credit: i64,
    parked: bool,
    resumed: Option<Instant>,
}

/// A finished turn, with what it had reserved.
type TurnDone = (LaneId, u32, usize, bool, TurnEnd);

pub(crate) struct Pump {
    shared: Arc<Shared>,
    queues: Vec<QueueState>,
    slots: Vec<Option<Held>>,
    free: Vec<usize>,
    /// Slots that are reserved for turns in flight.
    reserved: usize,
    next_generation: u64,
    /// Suspects that run, and whether a turn in flight asks for one: a process has one at most.
    suspects: usize,
    suspect_asked: bool,
    wakes: BTreeSet<(Instant, usize)>,
    events: mpsc::UnboundedSender<Event>,
    received: mpsc::UnboundedReceiver<Event>,
    batches: mpsc::UnboundedSender<Batch>,
    stage: watch::Receiver<Stage>,
    turns: FuturesUnordered<BoxFuture<'static, TurnDone>>,
    beats: FuturesUnordered<BoxFuture<'static, (Instant, Vec<Beat>)>>,
    beat_at: Instant,
    tick_at: Instant,
    stopping: Option<Stopping>,
    stopped: Stopped,
}

/// The times of a stop.
struct Stopping {
    /// The end of the grace time.
    grace: Instant,
    /// Handlers were told to stop; whoever still runs then is stuck.
    hurried: Option<Instant>,
}

/// Between two looks for handlers that should have ended.
const TICK: Duration = Duration::from_secs(1);

/// How long the last turns may take.
const LAST_TURNS: Duration = Duration::from_secs(5);

/// Between two polls of an idle queue, where few workers share it.
const POLL: Duration = Duration::from_secs(1);

/// Parked jobs of known tasks are asked for at most this often, and this many names at once.
const RESUME: Duration = Duration::from_secs(1);
const RESUME_NAMES: usize = 200;

/// Events that are taken in before it is planned again.
const EVENTS: usize = 4096;

impl Pump {
    pub(crate) fn new(
        shared: Arc<Shared>,
        configs: Vec<QueueConfig>,
        events: mpsc::UnboundedSender<Event>,
        received: mpsc::UnboundedReceiver<Event>,
        batches: mpsc::UnboundedSender<Batch>,
        stage: watch::Receiver<Stage>,
    ) -> Self {
        let now = Instant::now();
        let capacity = shared.settings.concurrency;
        let queues = configs.into_iter().enumerate().map(|(index, config)| QueueState {
            name: shared.queues[index].clone(),
            lanes: Vec::new(),
            weight: i64::from(config.weight),
            limit: config.limit.unwrap_or(capacity),
            used: 0,
            hungry: true,
            dirty: false,
            wake: now + POLL,
            credit: 0,
            parked: false,
            resumed: None,
        });
        let queues: Vec<QueueState> = queues.collect();
        Pump {
            wakes: queues.iter().enumerate().map(|(index, queue)| (queue.wake, index)).collect(),
            queues,
            slots: (0..capacity).map(|_| None).collect(),
            free: (0..capacity).rev().collect(),
            reserved: 0,
            next_generation: 0,
            suspects: 0,
            suspect_asked: false,
            events,
            received,
            batches,
            stage,
            turns: FuturesUnordered::new(),
            beats: FuturesUnordered::new(),
            beat_at: now + shared.settings.beat(),
            tick_at: now + TICK,
            stopping: None,
            stopped: Stopped::default(),
            shared,
        }
    }

    /// Runs until the worker has stopped.
    pub(crate) async fn run(mut self) -> Stopped {
        loop {
            self.look_at_stage();
            if self.is_done() {
                return self.leave().await;
            }
            self.plan();
            let wake = self.next_wake();
            tokio::select! {
                Some(event) = self.received.recv() => self.take_events(event),
                Some(done) = self.turns.next() => self.turn_ended(done),
                Some((sent, beats)) = self.beats.next() => self.beats_ended(sent, beats),
                _ = self.stage.changed() => {}
                () = tokio::time::sleep_until(wake.into()) => {}
            }
            self.look_at_clock();
        }
    }

    fn take_events(&mut self, first: Event) {
        let mut next = Some(first);
        let mut left = EVENTS;
        while let Some(event) = next.take() {
            match event {
                Event::Ended { slot, ending } => self.ended(slot, ending),
                Event::Begun { slot, context, timeout, isolation } => self.begun(slot, context, timeout, isolation),
                Event::Hint { queue, due: None } => self.queues[queue].hungry = true,
                Event::Hint { queue, due: Some(due) } => {
                    if due < self.queues[queue].wake {
                        self.set_wake(queue, due);
                    }
                }
            }
            left -= 1;
            if left > 0 {
                next = self.received.try_recv().ok();
            }
        }
    }

    // --- Slots ---

    fn begun(&mut self, slot: SlotId, context: JobContext, timeout: Option<Duration>, isolation: bool) {
        let Some(held) = self.slots[slot.index].as_mut().filter(|held| held.generation == slot.generation) else {
            // Its lane was forgotten meanwhile.
            context.cancel(CancelCause::LeaseLost);
            return;
        };
        if let Some(cause) = held.cancelled {
            context.cancel(cause);
        }
        let deadline = timeout.map(|timeout| Instant::now() + timeout);
        held.handler = Some(Handler { context, deadline, isolation, stuck: false });
    }

    fn ended(&mut self, slot: SlotId, ending: Ending) {
        let Some(held) = self.slots[slot.index].take_if(|held| held.generation == slot.generation) else { return };
        self.free.push(slot.index);
        self.stopped.finished += 1;
        let queue = &mut self.queues[held.lane.queue];
        queue.used -= 1;
        if held.suspect {
            self.suspects -= 1;
            queue.hungry = true;
        }
        let lane = &mut queue.lanes[held.lane.lane];
        if lane.generation != held.lane_generation {
            return;
        }
        if self.stopping.is_some() && ending == Ending::Release {
            self.stopped.released += 1;
        }
        lane.held -= 1;
        lane.finishes.push(Finish { id: held.id, claim: held.claim, ending });
        queue.dirty = true;
    }

    /// Tells the handlers of the slots that `which` says to stop.
    fn cancel(&mut self, cause: CancelCause, which: impl Fn(&Held) -> bool) {
        for held in self.slots.iter_mut().flatten().filter(|held| which(held)) {
            match &held.handler {
                Some(handler) => handler.context.cancel(cause),
                None => drop(held.cancelled.get_or_insert(cause)),
            }
        }
    }

    // --- Turns ---

    /// Sends what can be sent.
    fn plan(&mut self) {
        if self.stopping.is_none() && self.free.len() > self.reserved {
            for (queue, share) in self.shares(self.free.len() - self.reserved) {
                self.send_claim(queue, share);
            }
        }
        for queue in 0..self.queues.len() {
            if !mem::take(&mut self.queues[queue].dirty) {
                continue;
            }
            for lane in 0..self.queues[queue].lanes.len() {
                let entry = &self.queues[queue].lanes[lane];
                if entry.in_flight || entry.finishes.is_empty() {
                    continue;
                }
                if self.is_worth(queue, entry.finishes.len()) {
                    self.send(LaneId { queue, lane }, 0);
                } else {
                    self.queues[queue].dirty = true;
                }
            }
        }
    }

    /// Beside turns in flight, a further one has to carry something: what is little waits for one of them.
    fn is_worth(&self, queue: usize, items: usize) -> bool {
        let idle = self.queues[queue].lanes.iter().all(|lane| !lane.in_flight);
        idle || items * 8 >= self.slots.len()
    }

    /// How the free slots are shared among the queues that may have work.
    fn shares(&mut self, free: usize) -> Vec<(usize, usize)> {
        let mut hungry: Vec<usize> = Vec::new();
        for (index, queue) in self.queues.iter().enumerate() {
            if queue.hungry && queue.used < queue.limit {
                hungry.push(index);
                if self.shared.settings.strict_order {
                    break;
                }
            }
        }
        if let [only] = hungry[..] {
            return vec![(only, free)];
        }
        // Smooth weighted round robin, as nginx does it, in grains that bound the work.
        let total: i64 = hungry.iter().map(|queue| self.queues[*queue].weight).sum();
        let grain = (free / 64).max(1);
        let mut shares: Vec<(usize, usize)> = hungry.iter().map(|queue| (*queue, 0)).collect();
        let mut left = if hungry.is_empty() { 0 } else { free };
        while left > 0 {
            let mut best: Option<usize> = None;
            for (position, (queue, share)) in shares.iter().enumerate() {
                let state = &mut self.queues[*queue];
                if state.used + share >= state.limit {
                    continue;
                }
                state.credit += state.weight;
                if best.is_none_or(|best| self.queues[shares[best].0].credit < self.queues[*queue].credit) {
                    best = Some(position);
                }
            }
            let Some(best) = best else { break };
            self.queues[shares[best].0].credit -= total;
            let given = grain.min(left);
            shares[best].1 += given;
            left -= given;
        }
        shares.retain(|(_, share)| *share > 0);
        shares
    }

    /// Claims up to `share` jobs through an idle lane: one with endings to hand in, if there is one, or a new one.
    fn send_claim(&mut self, queue: usize, share: usize) {
        let state = &mut self.queues[queue];
        let claim = share.min(state.limit - state.used).min(MAX_ITEMS);
        let idle = state.lanes.iter().enumerate().filter(|(_, lane)| !lane.in_flight).max_by_key(|(_, lane)| lane.finishes.len());
        let lane = match idle {
            Some((lane, _)) => lane,
            None if state.lanes.len() < LANES => {
                state.lanes.push(Lane::default());
                state.lanes.len() - 1
            }
            None => return,
        };
        let finishes = state.lanes[lane].finishes.len();
        if claim > 0 && self.is_worth(queue, claim.max(finishes)) {
            self.send(LaneId { queue, lane }, claim);
        }
    }

    fn send(&mut self, id: LaneId, claim: usize) {
        let shared = self.shared.clone();
        let asks = claim > 0 && self.suspects == 0 && !self.suspect_asked;
        let state = &mut self.queues[id.queue];
        let lane = &mut state.lanes[id.lane];
        let rest = if lane.finishes.len() > MAX_ITEMS { lane.finishes.split_off(MAX_ITEMS) } else { Vec::new() };
        let finishes = mem::replace(&mut lane.finishes, rest);
        let worker = lane.name.clone();
        // An unregistered lane's name is filled in by `settle`.
        let mut turn = Turn::new(state.name.clone(), worker.clone().unwrap_or_else(nobody), lane.answered + 1, shared.settings.lease);
        turn.finishes = finishes;
        turn.claim = claim;
        turn.suspect = asks;
        turn.keep = shared.settings.keep;
        if claim > 0 && state.parked && state.resumed.is_none_or(|last| last.elapsed() >= RESUME) {
            state.resumed = Some(Instant::now());
            turn.resume = names_to_resume(&shared);
        }
        lane.in_flight = true;
        state.dirty |= !lane.finishes.is_empty();
        state.used += claim;
        if claim > 0 {
            // Known again when it is answered.
            state.hungry = false;
        }
        self.reserved += claim;
        self.suspect_asked |= asks;
        let generation = lane.generation;
        self.turns.push(Box::pin(async move { (id, generation, claim, asks, settle(shared, worker, TurnDraft { turn }).await) }));
    }

    fn turn_ended(&mut self, (id, generation, claim, asked, end): TurnDone) {
        self.reserved -= claim;
        self.suspect_asked &= !asked;
        let state = &mut self.queues[id.queue];
        state.used -= claim;
        state.dirty = true;
        let lane = &mut state.lanes[id.lane];
        lane.in_flight = false;
        if lane.generation != generation {
            // It was given up while this turn was on its way; what it claimed runs out with its lease.
            state.hungry = true;
            return;
        }
        match end {
            TurnEnd::Answered { name, turn, answer, sent } => {
                lane.name = Some(name);
                lane.answered = turn.seq;
                lane.lease.set(sent + turn.lease);
                self.answered(id, claim, &turn, answer);
            }
            TurnEnd::Forgotten => {
                state.hungry = true;
                self.forgotten(id);
            }
        }
    }

    fn answered(&mut self, id: LaneId, claim: usize, turn: &Turn, answer: TurnAnswer) {
        for position in &answer.stale {
            if let Some(finish) = turn.finishes.get(*position)
                && !matches!(finish.ending, Ending::Void | Ending::Release)
            {
                tracing::warn!(queue = %turn.queue, job = %finish.id, claim = finish.claim, "its lease was lost: this ending changed nothing");
            }
        }
        let state = &mut self.queues[id.queue];
        state.parked = answer.parked;
        if claim > 0 {
            state.hungry |= answer.more && !answer.paused;
            let wake = Instant::now() + poll_interval(answer.workers);
            let due = answer.next_due.filter(|_| !answer.paused).map(|due| Instant::now() + due);
            self.set_wake(id.queue, due.map_or(wake, |due| due.min(wake)));
        }
        let mut jobs = Vec::with_capacity(answer.deliveries.len());
        for delivery in answer.deliveries {
            let finish = |ending| Finish { id: delivery.id.clone(), claim: delivery.claim, ending };
            let lane = &mut self.queues[id.queue].lanes[id.lane];
            if delivery.void {
                lane.finishes.push(finish(Ending::Void));
                continue;
            }
            // Claimed by a turn that was under way when the worker was told to stop.
            let slot = if self.stopping.is_none() { self.free.pop() } else { None };
            let Some(index) = slot else {
                lane.finishes.push(finish(Ending::Release));
                continue;
            };
            lane.held += 1;
            self.next_generation += 1;
            let slot = SlotId { index, generation: self.next_generation };
            self.slots[index] = Some(Held {
                generation: slot.generation,
                lane: id,
                lane_generation: lane.generation,
                id: delivery.id.clone(),
                claim: delivery.claim,
                suspect: delivery.crashes > 0,
                handler: None,
                cancelled: None,
            });
            self.queues[id.queue].used += 1;
            self.suspects += usize::from(delivery.crashes > 0);
            jobs.push((slot, delivery));
        }
        if !jobs.is_empty() {
            let (name, lease) = (self.queues[id.queue].name.clone(), self.queues[id.queue].lanes[id.lane].lease.clone());
            let batch = Batch { queue: name, lease, now_ms: answer.now_ms, jobs };
            if let Err(lost) = self.batches.send(batch) {
                // The application's runtime is gone: nobody will run anything here any more.
                for (slot, _) in lost.0.jobs {
                    self.ended(slot, Ending::Release);
                }
            }
        }
    }

    /// R11. A lane whose lease had run out is alone concerned. If it should have stood, the broker is an older copy of itself,
    /// and what it told the other lanes is as doubtful.
    fn forgotten(&mut self, id: LaneId) {
        let state = &mut self.queues[id.queue];
        let lane = &state.lanes[id.lane];
        let concerned: Vec<usize> = if lane.held > 0 || lane.is_leased() { (0..state.lanes.len()).collect() } else { vec![id.lane] };
        let lost: usize = concerned.iter().map(|lane| state.lanes[*lane].held).sum();
        if lost > 0 {
            tracing::error!(queue = %state.name, jobs = lost, "the broker has forgotten this worker: the leases of its jobs are lost");
        }
        for lane in &concerned {
            state.lanes[*lane].forget();
        }
        self.cancel(CancelCause::LeaseLost, |held| held.lane.queue == id.queue && concerned.contains(&held.lane.lane));
    }

    // --- Beats and clocks ---

    fn beats_ended(&mut self, sent: Instant, beats: Vec<Beat>) {
        for Beat { lane: id, generation, answer } in beats {
            let lane = &mut self.queues[id.queue].lanes[id.lane];
            if lane.generation != generation {
                continue;
            }
            match answer {
                Ok(extended) => {
                    lane.lease.set((sent + self.shared.settings.lease).max(lane.lease.until()));
                    for (job, claim) in extended.cancelled {
                        self.cancel(CancelCause::Cancelled, |held| held.lane == id && held.claim == claim && held.id == job);
                    }
                }
                Err(queue_core::Error::Forgotten(_)) => self.forgotten(id),
                Err(error) => tracing::warn!(queue = %self.queues[id.queue].name, "a beat had no answer: {error}"),
            }
        }
    }

    fn look_at_clock(&mut self) {
        let now = Instant::now();
        while let Some((_, queue)) = self.wakes.first().copied().filter(|(wake, _)| *wake <= now) {
            self.queues[queue].hungry = true;
            self.set_wake(queue, now + POLL);
        }
        if now >= self.beat_at {
            self.beat_at = now + self.shared.settings.beat();
            let due = heartbeat::due(&self.queues, &self.shared);
            // A beat that is still waited for is not doubled: it ends at its deadline.
            if !due.is_empty() && self.beats.len() < 2 {
                self.beats.push(Box::pin(heartbeat::send(self.shared.clone(), due)));
            }
        }
        if now >= self.tick_at {
            self.tick_at = now + TICK;
            self.look_for_stuck(now);
        }
    }

    fn look_for_stuck(&mut self, now: Instant) {
        let mut stuck = 0;
        for held in self.slots.iter_mut().flatten() {
            let Some(handler) = &mut held.handler else { continue };
            let lane = &self.queues[held.lane.queue].lanes[held.lane.lane];
            if handler.isolation && lane.lease.until() <= now {
                handler.context.cancel(CancelCause::LeaseLost);
            }
            if handler.deadline.is_some_and(|deadline| deadline + CANCEL_GRACE * 2 < now) {
                stuck += 1;
                if !mem::replace(&mut handler.stuck, true) {
                    let (queue, job) = (&*self.queues[held.lane.queue].name, &held.id);
                    tracing::error!(queue, %job, "stuck: its handler goes on after its timeout and blocks its slot; it keeps its lease until it ends");
                }
            }
        }
        self.shared.stuck.store(stuck, std::sync::atomic::Ordering::Relaxed);
    }

    fn set_wake(&mut self, queue: usize, wake: Instant) {
        let state = &mut self.queues[queue];
        self.wakes.remove(&(state.wake, queue));
        state.wake = wake;
        self.wakes.insert((wake, queue));
    }

    fn next_wake(&self) -> Instant {
        let wake = self.wakes.first().map_or(self.tick_at, |(wake, _)| *wake).min(self.beat_at).min(self.tick_at);
        match &self.stopping {
            Some(Stopping { hurried: Some(end), .. }) => wake.min(*end),
            Some(Stopping { grace, .. }) => wake.min(*grace),
            None => wake,
        }
    }

    // --- The end ---

    fn look_at_stage(&mut self) {
        let stage = *self.stage.borrow_and_update();
        let gone = self.stage.has_changed().is_err();
        if stage == Stage::Running && !gone {
            return;
        }
        let now = Instant::now();
        let grace = now + self.shared.settings.grace;
        let stopping = self.stopping.get_or_insert(Stopping { grace, hurried: None });
        if stopping.hurried.is_none() && (stage == Stage::Hurrying || gone || now >= stopping.grace) {
            stopping.hurried = Some(now + CANCEL_GRACE * 2);
            self.cancel(CancelCause::Shutdown, |_| true);
        }
    }

    /// Nothing runs any more, or nothing that could be stopped, and every ending is handed in, or cannot be.
    fn is_done(&self) -> bool {
        let Some(stopping) = &self.stopping else { return false };
        let now = Instant::now();
        let running = self.slots.iter().flatten().next().is_some();
        match stopping.hurried {
            Some(end) if now >= end + LAST_TURNS => true,
            Some(end) if now >= end => self.is_handed_in(),
            _ => !running && self.is_handed_in(),
        }
    }

    fn is_handed_in(&self) -> bool {
        self.turns.is_empty() && self.queues.iter().all(|queue| queue.lanes.iter().all(|lane| lane.finishes.is_empty()))
    }

    /// Ends the leases of lanes that hold nothing, so that nobody waits for them.
    async fn leave(mut self) -> Stopped {
        for held in self.slots.iter().flatten() {
            let lane = &self.queues[held.lane.queue].lanes[held.lane.lane];
            self.stopped.stuck += u64::from(lane.generation == held.lane_generation);
        }
        let waiting = self.queues.iter().flat_map(|queue| &queue.lanes).map(|lane| lane.finishes.len()).sum::<usize>();
        self.stopped.unconfirmed = waiting as u64;
        let mut last = FuturesUnordered::new();
        for queue in &self.queues {
            for lane in queue.lanes.iter().filter(|lane| lane.held == 0 && !lane.in_flight) {
                if let Some(name) = &lane.name {
                    let turn = Turn::new(queue.name.clone(), name.clone(), lane.answered + 1, Duration::ZERO);
                    let broker = self.shared.broker.clone();
                    last.push(async move { broker.turn(&turn).await });
                }
            }
        }
        // A courtesy: without it the leases run out by themselves.
        let _ = tokio::time::timeout(Duration::from_secs(1), async { while last.next().await.is_some() {} }).await;
        drop(self.events);
        self.stopped
    }
}

/// Between two polls of an idle queue: about five a second by all of its lanes together, and one a second by each where they
/// are few; never at the same time.
fn poll_interval(workers: usize) -> Duration {
    let shared = Duration::from_millis(200).saturating_mul(u32::try_from(workers).unwrap_or(u32::MAX));
    shared.max(POLL).mul_f64(0.75 + fastrand::f64() / 2.0)
}

/// The task names that this worker takes parked jobs of; another part of them each time where they are too many for one turn.
fn names_to_resume(shared: &Shared) -> Vec<Arc<str>> {
    let mut names: Vec<Arc<str>> = shared.tasks.keys().map(|name| Arc::from(*name)).collect();
    if names.len() > RESUME_NAMES {
        fastrand::shuffle(&mut names);
        names.truncate(RESUME_NAMES);
    }
    names
}

fn nobody() -> PartyName {
    PartyName::new("")
}
