//! A worker that runs the next job on request of its caller, for `queue-conformance`. It claims,
//! runs and ends jobs as every worker does. It has no duties, so the queue does not change between
//! two calls.

use std::{
    collections::{BTreeMap, BTreeSet, HashMap},
    mem,
    sync::Arc,
    time::Duration,
};

use futures_util::FutureExt;
use queue_core::{
    __private::{Envelope, LeaseClock},
    Client, Error, JobAddress, JobContext,
    broker::{Delivery, DynBroker, Ending, Finish, PartyName, Register, Turn, TurnAnswer},
    schedule::tick_due,
};
use tokio::sync::{Notify, mpsc};
use tokio_util::sync::{CancellationToken, DropGuard};

use super::Worker;
use crate::{
    arrival::{self, on_broker},
    duties::{Pass, Supervisor, declarer::Declarer, scribe::Scribe},
    engine::Plan,
    error::WorkerError,
    messages::{Batch, Event, SlotId},
    run,
    shared::Shared,
    time::now,
};

/// The lease of an inline run, which has no heartbeats.
const LEASE: Duration = Duration::from_secs(24 * 3600);

/// Schedules whose ticks are made together.
const TICKS: usize = 100;

/// Runs jobs one after the other. While a job waits for the end of another one, the next jobs run
/// concurrently.
pub struct Inline {
    shared: Arc<Shared>,
    seen: Seen,
    events: mpsc::UnboundedSender<Event>,
    received: mpsc::UnboundedReceiver<Event>,
    running: HashMap<usize, Started>,
    started: usize,
    /// Notified when a caller waits for the end of a job.
    waits: Arc<Notify>,
    /// Whether a caller has waited since the last job was started while no other job ran.
    is_waited_for: bool,
    /// Ends the scribe.
    scribe: Option<DropGuard>,
}

/// A job that an [`Inline`] has run, or has refused to run.
#[derive(Debug)]
#[non_exhaustive]
pub struct InlineRan {
    /// The address of the job.
    pub address: JobAddress,
    /// The stored name of its task.
    pub task: String,
    /// The number of the attempt, from 1.
    pub attempt: u32,
    /// The ending of the run.
    pub ending: Ending,
}

/// The known state of the broker.
#[derive(Default)]
struct Seen {
    lanes: BTreeMap<Arc<str>, Lane>,
    /// The time until the next tick of a schedule, at the last check.
    next_tick: Option<Duration>,
}

/// A lane of one queue.
#[derive(Default)]
struct Lane {
    name: Option<PartyName>,
    answered: u64,
    parked: bool,
    next_due: Option<Duration>,
}

/// A running job.
struct Started {
    queue: Arc<str>,
    task: String,
    finish: Finish,
    attempt: u32,
    context: Option<JobContext>,
}

impl Inline {
    /// Declares the limits, groups, aging, schedules and subscriptions of the worker's tasks. It
    /// uses this broker; handlers get the worker's client. `waits` is notified when a caller waits
    /// for the end of a job.
    ///
    /// # Errors
    /// [`WorkerError::Setup`], and the errors of the broker.
    pub async fn new(worker: Worker, broker: DynBroker, waits: Arc<Notify>) -> Result<Self, WorkerError> {
        let problems = worker.registry.duplicates();
        if !problems.is_empty() {
            return Err(WorkerError::Setup(problems));
        }
        let plan = Plan { client: Client::with_broker(broker), ..worker.plan()? };
        let shared = plan.shared(plan.identity().await);
        let (broker, release, declarations) = (shared.connection.broker.clone(), shared.identity.info.release(), plan.declarations);
        let (events, received) = mpsc::unbounded_channel();
        arrival::declare_limits(&broker, &release, &declarations).await?;
        // The declarer declares the rest.
        if !(declarations.aging.is_empty() && declarations.schedules.is_empty() && declarations.subscriptions.is_empty()) {
            let mut declarer = Declarer::new(broker.clone(), release, declarations, shared.queues.clone());
            on_broker(&broker, async move { declarer.tick().await }).await?;
        }
        Ok(Inline {
            shared,
            seen: Seen::default(),
            events,
            received,
            running: HashMap::new(),
            started: 0,
            waits,
            is_waited_for: false,
            scribe: None,
        })
    }

    /// Runs the next job of this queue, or of all queues, and returns it when it has ended. Returns
    /// `None` if no job can start now.
    ///
    /// # Errors
    /// Those of the broker.
    pub async fn next(&mut self, queue: Option<&str>) -> Result<Option<InlineRan>, WorkerError> {
        if self.running.is_empty() {
            // Discards an earlier notification: it does not belong to a running job.
            let _ = self.waits.notified().now_or_never();
            self.is_waited_for = false;
        }
        let mut claims = self.running.is_empty() || self.is_waited_for;
        loop {
            if claims && !self.claim(queue).await? && self.running.is_empty() {
                return Ok(None);
            }
            let waits = self.waits.clone();
            tokio::select! {
                biased;
                Some(event) = self.received.recv() => match event {
                    Event::Ended { slot, ending, .. } => return self.end(slot, ending).await,
                    event => {
                        self.handle_event(event);
                        claims = false;
                    }
                },
                () = waits.notified() => (self.is_waited_for, claims) = (true, true),
            }
        }
    }

    /// Whether a job that has let others run is still running.
    pub fn is_running(&self) -> bool {
        !self.running.is_empty()
    }

    /// Runs a job that is not stored, as its first attempt, even if its queue would hold it back.
    ///
    /// # Errors
    /// Those of the broker.
    pub async fn run(&mut self, address: &JobAddress, envelope: Vec<u8>) -> Result<Ending, WorkerError> {
        let delivery = Delivery::new(address.id.clone(), 1, envelope);
        // The time of the claim is zero, so the job does not expire.
        let own = self.start(&address.queue, PartyName::new("in-place"), 0, delivery);
        while let Some(event) = self.received.recv().await {
            match event {
                Event::Ended { slot, ending, .. } if slot.index == own => {
                    self.running.remove(&own);
                    return Ok(ending);
                }
                Event::Ended { slot, ending, .. } => drop(self.end(slot, ending).await?),
                event => self.handle_event(event),
            }
        }
        Err(WorkerError::Died("its events have ended".to_owned()))
    }

    /// The time until the next job or schedule is due, at the last call of `next` that returned
    /// `None`.
    pub fn next_due(&self) -> Option<Duration> {
        self.seen.lanes.values().filter_map(|lane| lane.next_due).chain(self.seen.next_tick).min()
    }

    fn handle_event(&mut self, event: Event) {
        if let Event::Begun { slot, context, .. } = event
            && let Some(started) = self.running.get_mut(&slot.index)
        {
            started.context = Some(context);
        }
    }

    /// Stores the ending of a job.
    async fn end(&mut self, slot: SlotId, ending: Ending) -> Result<Option<InlineRan>, WorkerError> {
        let Some(Started { queue, task, mut finish, attempt, context }) = self.running.remove(&slot.index) else {
            return Err(WorkerError::Died("a job has ended twice".to_owned()));
        };
        finish.ending = ending.clone();
        finish.used = context.and_then(|context| context.used());
        let address = JobAddress { queue: queue.clone(), id: finish.id.clone() };
        let (shared, mut lane) = (self.shared.clone(), self.seen.lanes.remove(&queue).unwrap_or_default());
        let of = queue.clone();
        let (lane, answer) = on_broker(&self.shared.connection.broker, async move {
            let answer = turn(&shared, &of, &mut lane, vec![finish], 0).await;
            (lane, answer)
        })
        .await?;
        self.seen.lanes.insert(queue, lane);
        answer?;
        Ok(Some(InlineRan { address, task, attempt, ending }))
    }

    /// Starts the next job, if one is ready.
    async fn claim(&mut self, queue: Option<&str>) -> Result<bool, WorkerError> {
        let (shared, mut seen, only) = (self.shared.clone(), mem::take(&mut self.seen), queue.map(str::to_owned));
        let (seen, claimed) = on_broker(&self.shared.connection.broker, async move {
            let claimed = claim(&shared, &mut seen, only.as_deref()).await;
            (seen, claimed)
        })
        .await?;
        self.seen = seen;
        let Some(Claimed { queue, lane, answer }) = claimed? else { return Ok(false) };
        for delivery in answer.deliveries {
            self.start(&queue, lane.clone(), answer.now_ms, delivery);
        }
        Ok(true)
    }

    /// Starts a job on the runtime of the caller.
    fn start(&mut self, queue: &Arc<str>, lane: PartyName, now_ms: i64, delivery: Delivery) -> usize {
        self.scribe.get_or_insert_with(|| {
            let over = CancellationToken::new();
            let duties = Supervisor::new(self.shared.connection.broker.clone(), over.clone(), Arc::default());
            duties.start(&self.shared, |shared| Scribe::new(shared.connection.broker.clone(), shared.progress.clone()));
            over.drop_guard()
        });
        let slot = SlotId { index: self.started, generation: 0 };
        self.started += 1;
        let started = Started {
            queue: queue.clone(),
            task: Envelope::decode(&delivery.envelope).map(|envelope| envelope.task.into_owned()).unwrap_or_default(),
            finish: Finish::new(&delivery, Ending::Return),
            attempt: delivery.attempts.saturating_add(1),
            context: None,
        };
        self.running.insert(slot.index, started);
        let (lease, watched) = (LeaseClock::default(), LeaseClock::default());
        // All results are sent. The broker keeps those of jobs with a retention.
        lease.set(now() + LEASE);
        watched.set(now() + LEASE);
        self.shared.connection.answered();
        run::start(&self.shared, Batch { queue: queue.clone(), lane, lease, watched, now_ms, jobs: vec![(slot, delivery)] }, &self.events);
        slot.index
    }
}

impl std::fmt::Debug for Inline {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Inline").field("started", &self.started).finish_non_exhaustive()
    }
}

struct Claimed {
    queue: Arc<str>,
    lane: PartyName,
    answer: TurnAnswer,
}

/// Claims the next job. If no job is ready, makes the due ticks.
async fn claim(shared: &Shared, seen: &mut Seen, only: Option<&str>) -> Result<Option<Claimed>, Error> {
    loop {
        let mut queues: BTreeSet<String> = shared.connection.broker.queues().await?.into_iter().collect();
        queues.extend(shared.application.subscribed_queues().map(str::to_owned));
        queues.retain(|queue| only.is_none_or(|only| only == queue));
        let queues: Vec<Arc<str>> = queues.into_iter().map(Arc::from).collect();
        for queue in &queues {
            let lane = seen.lanes.entry(queue.clone()).or_default();
            let answer = turn(shared, queue, lane, Vec::new(), 1).await?;
            if !answer.deliveries.is_empty()
                && let Some(name) = lane.name.clone()
            {
                return Ok(Some(Claimed { queue: queue.clone(), lane: name, answer }));
            }
        }
        let (mut made, mut next_tick) = (0, None::<Duration>);
        for queue in &queues {
            let ticks = tick_due(&shared.connection.broker, queue, TICKS).await?;
            for schedule in ticks.schedules {
                match schedule.problem {
                    Some(problem) => return Err(problem),
                    None => made += schedule.jobs,
                }
            }
            next_tick = next_tick.into_iter().chain(ticks.next_due).min();
        }
        seen.next_tick = next_tick;
        if made == 0 {
            return Ok(None);
        }
    }
}

/// Sends a turn of a lane, which registers first if necessary.
async fn turn(shared: &Shared, queue: &Arc<str>, lane: &mut Lane, finishes: Vec<Finish>, claim: usize) -> Result<TurnAnswer, Error> {
    let lease = shared.settings.lease;
    let mut is_new = false;
    loop {
        let name = match &lane.name {
            Some(name) => name.clone(),
            None => {
                let register = Register::lane(queue.clone(), shared.identity.process, lease).with_info(shared.identity.info.clone());
                let name = shared.connection.broker.register(&register).await?.name;
                *lane = Lane { name: Some(name.clone()), ..Lane::default() };
                is_new = true;
                name
            }
        };
        let mut turn = Turn::new(queue.clone(), name, lane.answered + 1, lease).finish(finishes.clone()).claim(claim);
        turn.keep = shared.settings.sweep.keep;
        if lane.parked && claim > 0 {
            turn.resume = shared.application.names_to_resume(queue);
            turn.release = Some(shared.identity.release.clone());
        }
        match shared.connection.broker.turn(&turn).await {
            Ok(answer) => {
                lane.answered += 1;
                (lane.parked, lane.next_due) = (answer.parked, answer.next_due);
                return Ok(answer);
            }
            // Another worker has found that the lease of this lane had expired.
            Err(Error::Forgotten(_)) if !is_new => lane.name = None,
            Err(error) => return Err(error),
        }
    }
}
