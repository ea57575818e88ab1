//! Operations as steps of a story: what is done to all jobs that match, one step at a time, while
//! jobs come, run and go between the steps.
//!
//! Runners are those of the library, and work on one of the two sides. What they ask of its broker
//! is written down, and asked of the other one. Pages are short, so that a walk has several.

use std::{
    collections::BTreeMap,
    fmt,
    sync::{Arc, Mutex},
    time::{Duration, UNIX_EPOCH},
};

use futures_util::future::join_all;
use proptest::{collection::vec, prelude::*};
use queue_core::{
    Client, Error, JobAddress, JobId, Priority, Result,
    broker::{
        Broker, Change, DynBroker, Inspect, JobState, Operate, Operated, OperationDeed, OperationPart, OperationStep, Scan, Scanned,
        StoredJob, Wrapper,
    },
    inspect::{Inspector, NewOperation, Operation, OperationKind, OperationState, RunOperation},
};

use crate::{
    compare::Check,
    step::{Index, index},
    world::Sides,
};

/// Jobs of a page.
const PAGE: usize = 3;

/// Runners that go on side by side.
const RUNNERS: usize = 3;

/// What people and runners do with the operations of a queue.
#[derive(Clone, Debug)]
pub(crate) enum Operating {
    /// A person starts one; `detached`: it has no runner yet; `on_second`: which of two brokers its
    /// runners work on.
    Start { on_second: bool, kind: OperationKind, filter: &'static str, detached: bool },
    /// One of the runners takes `steps` steps.
    Run { runner: Index, steps: usize },
    /// Another runner comes, and takes over at once or when the one before is gone.
    Join { at_once: bool },
    /// A runner goes away.
    Leave { runner: Index },
    /// A person stops the last one.
    Stop,
    /// A program takes a step of the last one under the name of its runner or under another name,
    /// whose number is the next one or off by one.
    Step { is_runner: bool, off: i64, change: Change, states: Vec<JobState>, jobs: Vec<Index> },
}

const FILTERS: [&str; 12] = [
    "",
    "state=ready",
    "state=scheduled",
    "state=dead",
    "state!=dead",
    "state!=ready",
    "state!=ready state!=active",
    "task=model.task",
    "task=other",
    "priority=normal",
    "tag.all=yes",
    "tag.all=yes state!=dead",
];

fn kind() -> impl Strategy<Value = OperationKind> {
    prop_oneof![
        3 => Just(OperationKind::Requeue),
        3 => Just(OperationKind::Promote),
        3 => Just(OperationKind::Cancel),
        2 => Just(OperationKind::Delete),
        1 => Just(OperationKind::Drain),
        1 => Just(OperationKind::Purge),
    ]
}

pub(crate) fn operating() -> impl Strategy<Value = Operating> {
    let change = prop_oneof![Just(Change::Requeue), Just(Change::Promote), Just(Change::Cancel), Just(Change::Delete)];
    let states = prop_oneof![
        3 => Just(JobState::ALL.to_vec()),
        1 => vec(prop::sample::select(JobState::ALL.to_vec()), 0..3),
    ];
    prop_oneof![
        4 => (any::<bool>(), kind(), prop::sample::select(FILTERS.to_vec()), prop::bool::weighted(0.2))
            .prop_map(|(on_second, kind, filter, detached)| Operating::Start { on_second, kind, filter, detached }),
        8 => (index(), 1..5usize).prop_map(|(runner, steps)| Operating::Run { runner, steps }),
        2 => any::<bool>().prop_map(|at_once| Operating::Join { at_once }),
        1 => index().prop_map(|runner| Operating::Leave { runner }),
        1 => Just(Operating::Stop),
        2 => (prop::bool::weighted(0.7), -1..=1i64, change, states, vec(index(), 0..3))
            .prop_map(|(is_runner, off, change, states, jobs)| Operating::Step { is_runner, off, change, states, jobs }),
    ]
}

/// A broker with short pages that writes down what it is asked to do with operations, and what it
/// answers.
struct Overheard {
    inner: DynBroker,
    asked: Mutex<Vec<(Operate, String)>>,
}

impl fmt::Debug for Overheard {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Overheard").finish_non_exhaustive()
    }
}

impl Wrapper for Overheard {
    fn inner(&self) -> &dyn Broker {
        &*self.inner
    }

    async fn scan(&self, request: &Scan) -> Result<Scanned> {
        let mut request = request.clone();
        request.limit = PAGE;
        self.inner.scan(&request).await
    }

    async fn operate(&self, request: &Operate) -> Result<Operated> {
        let answer = self.inner.operate(request).await;
        self.asked.lock().expect("no one panics with it").push((request.clone(), text(&answer)));
        answer
    }
}

/// An answer. Whether there may be more to take from the heads of the lines is for the broker to
/// know.
fn text(answer: &Result<Operated>) -> String {
    let face = |answer: &Operated| match answer {
        Operated::Done { operation, .. } => format!("done {operation:?}"),
        other => format!("{other:?}"),
    };
    answer.as_ref().map_or_else(|error| format!("error: {error}"), face)
}

/// What an operation goes by, of a job.
#[derive(Clone, Debug, PartialEq)]
struct Concerned {
    envelope: Vec<u8>,
    priority: Priority,
    attempts: u32,
    failures: usize,
    /// Its end, if it has ended: its state and when.
    ended: Option<(JobState, Option<i64>)>,
}

fn concerned(job: &StoredJob) -> Concerned {
    let ended = job.state.is_final().then_some((job.state, job.at_ms));
    let (envelope, priority, attempts) = (job.envelope.clone(), job.priority, job.attempts);
    Concerned { envelope, priority, attempts, failures: job.failures.len(), ended }
}

/// One of the sides.
struct Stage {
    overheard: Arc<Overheard>,
    inspector: Inspector,
}

/// The operations of a story.
pub(crate) struct Operations {
    queue: Arc<str>,
    /// In the order of the sides.
    stages: [Stage; 2],
    names: [&'static str; 2],
    /// Whether both take jobs from the heads of the lines.
    both_pop: bool,
    /// The side of the last operation.
    stage: usize,
    runners: Vec<RunOperation>,
    /// Jobs that the last operation concerned when it was started, and what they were then, as long
    /// as they have stayed in its states and were not handed in.
    waits: BTreeMap<JobId, Concerned>,
    /// Its states.
    states: Vec<JobState>,
    last: String,
    /// The operation and the number of the last step that a program has taken under the name of a
    /// runner. The runner's own step of this number is taken for it, sent again.
    foreign: Option<(String, u64)>,
}

impl Operations {
    pub(crate) fn new(sides: &Sides, queue: &Arc<str>) -> Operations {
        let stages = sides.brokers.clone().map(|inner| {
            let overheard = Arc::new(Overheard { inner, asked: Mutex::default() });
            Stage { inspector: Client::with_broker(overheard.clone()).inspector(), overheard }
        });
        Operations {
            queue: queue.clone(),
            stages,
            names: sides.names,
            both_pop: sides.are_alike,
            stage: 0,
            runners: Vec::new(),
            waits: BTreeMap::new(),
            states: Vec::new(),
            last: String::new(),
            foreign: None,
        }
    }

    /// What is kept of them, in any order.
    pub(crate) async fn stored(&self, sides: &Sides) -> Check<Vec<Operation>> {
        let by_id = |mut operations: Vec<Operation>| {
            operations.sort_by(|one, other| one.id.cmp(&other.id));
            operations
        };
        let stored = sides.ask_as("operations", async |broker| broker.operations(&self.queue).await, by_id).await?;
        stored.map_err(|error| error.to_string())
    }

    /// Does it. `named`: the jobs of a step; `all`: those that ever were.
    pub(crate) async fn act(&mut self, sides: &Sides, step: &Operating, named: Vec<JobId>, all: &[JobId]) -> Check {
        let text = |error: Error| error.to_string();
        let operations = self.stored(sides).await?;
        let last = operations.into_iter().max_by_key(|operation| (operation.is_running(), operation.started_ms, operation.id.clone()));
        match step {
            Operating::Start { on_second, kind, filter, detached } => {
                let filter = if kind.takes_all() { "" } else { filter };
                let new = NewOperation::new(*kind, filter.parse().expect("it is a filter")).all();
                let new = if *detached { new.detached() } else { new };
                let stage = &self.stages[usize::from(*on_second)];
                match stage.inspector.start_operation(&self.queue, &new).await {
                    Ok(started) => {
                        self.stage = usize::from(*on_second);
                        self.started(sides, &new, &started, *detached, all).await?;
                    }
                    Err(Error::OperationUnderWay(_) | Error::Invalid { .. }) => {}
                    Err(error) => return Err(format!("an operation is not started: {error}")),
                }
            }
            Operating::Run { runner, steps } => {
                for _ in 0..*steps {
                    if self.runners.is_empty() {
                        return Ok(());
                    }
                    let at = runner.index(self.runners.len());
                    let goes_on = self.runners[at].step().await.map_err(text)?;
                    self.replay(all).await?;
                    let show = async |broker: &DynBroker| {
                        let jobs = join_all(all.iter().map(|id| broker.show(&self.queue, id))).await;
                        jobs.into_iter().collect::<Result<Vec<_>>>()
                    };
                    let jobs = show(&sides.second()).await.map_err(text)?;
                    self.moved(&jobs);
                    self.is_whole(self.runners[at].operation())?;
                    if !goes_on {
                        self.runners.remove(at);
                        break;
                    }
                }
            }
            Operating::Join { at_once } => {
                if let Some(operation) = last {
                    let run = self.stages[self.stage].inspector.run_operation(&operation);
                    self.join(if *at_once { run.at_once() } else { run });
                }
            }
            Operating::Leave { runner } => {
                if !self.runners.is_empty() {
                    self.runners.remove(runner.index(self.runners.len()));
                }
            }
            Operating::Stop => {
                if let Some(operation) = last {
                    self.stages[self.stage].inspector.stop_operation(&self.queue, &operation.id).await.map_err(text)?;
                }
            }
            Operating::Step { is_runner, off, change, states, jobs: _ } => {
                if let Some(operation) = last {
                    let runner = operation.runner.clone().filter(|_| *is_runner).unwrap_or_else(|| "stranger".to_owned());
                    let number = operation.step.saturating_add_signed(*off);
                    let step = OperationStep {
                        runner: runner.into(),
                        step: number,
                        part: OperationPart::Change { change: *change, reason: None, states: states.clone(), ids: named },
                        position: operation.position.clone(),
                        examined: 1,
                        skipped: 0,
                        end: None,
                        problem: None,
                    };
                    let request = Operate::new(self.queue.clone(), &*operation.id, OperationDeed::Step(step));
                    let answer = Inspect::operate(&*self.stages[self.stage].overheard, &request).await.map_err(text)?;
                    if matches!(answer, Operated::Done { .. }) {
                        self.foreign = Some((operation.id, number));
                    }
                }
            }
        }
        self.replay(all).await
    }

    fn join(&mut self, run: RunOperation) {
        self.runners.push(run);
        if self.runners.len() > RUNNERS {
            self.runners.remove(0);
        }
    }

    async fn started(&mut self, sides: &Sides, new: &NewOperation, started: &Operation, detached: bool, all: &[JobId]) -> Check {
        self.replay(all).await?;
        let upto = UNIX_EPOCH + Duration::from_millis(started.started_ms.unsigned_abs());
        (self.waits, self.states, self.last) = (BTreeMap::new(), new.states(), started.id.clone());
        let inspector = &self.stages[self.stage].inspector;
        for id in all {
            let Ok(job) = inspector.show(&JobAddress { queue: self.queue.clone(), id: id.clone() }).await else { continue };
            let last = job.ended_at.or_else(|| job.errors.last().and_then(|error| error.at));
            let was_there = [job.enqueued_at, last].into_iter().flatten().all(|at| at <= upto);
            if was_there && new.states().contains(&job.state) && new.filter.matches(&job, sides.now()) {
                let stored = sides.second().show(&self.queue, id).await.map_err(|error| error.to_string())?.ok_or("a job is gone")?;
                self.waits.insert(id.clone(), concerned(&stored));
            }
        }
        if !detached {
            let run = self.stages[self.stage].inspector.run_operation(started);
            self.join(run);
        }
        Ok(())
    }

    /// After each step of a story. A job that is in none of the states may be passed over, as the
    /// operation may look for it just then. One that has ended or failed since, or has become
    /// another job by an edit or a replacement, is not concerned any more. A job that has only
    /// moved, from one of the states to another or within one, is met wherever it is.
    pub(crate) fn moved(&mut self, jobs: &[Option<StoredJob>]) {
        let now: BTreeMap<&JobId, &StoredJob> = jobs.iter().flatten().map(|job| (&job.id, job)).collect();
        let (waits, states) = (&mut self.waits, &self.states);
        waits.retain(|id, then| now.get(id).is_some_and(|job| states.contains(&job.state) && concerned(job) == *then));
    }

    /// An operation that is completed has met all jobs that have stayed in its states since it was
    /// started.
    fn is_whole(&self, operation: &Operation) -> Check {
        match operation.state {
            OperationState::Completed if operation.id == self.last && !self.waits.is_empty() => {
                Err(format!("{} {} has passed over {:?}", operation.kind, operation.filter, self.waits))
            }
            OperationState::Failed => Err(format!("an operation has failed: {:?}", operation.problem)),
            _ => Ok(()),
        }
    }

    /// Asks the other side what was asked of one.
    async fn replay(&mut self, all: &[JobId]) -> Check {
        for stage in 0..self.stages.len() {
            let asked = std::mem::take(&mut *self.stages[stage].overheard.asked.lock().expect("no one panics with it"));
            let other = &self.stages[1 - stage].overheard.inner;
            for (request, told) in asked {
                let handed_in = self.handed_in(other, &request).await?;
                let id = request.id.clone();
                let step = async || -> Result<Option<u64>> {
                    let operations = other.operations(&self.queue).await?;
                    Ok(operations.iter().find(|known| *known.id == *id).map(|known| known.step))
                };
                let before = step().await.map_err(|error| error.to_string())?;
                let request = self.without_pop(stage, request, all).await?;
                let answer = other.operate(&request).await;
                if told != text(&answer) {
                    return Err(format!(
                        "an operation: {} says\n  {told}\nand {}\n  {}\nto {request:?}",
                        self.names[stage],
                        self.names[1 - stage],
                        text(&answer)
                    ));
                }
                // One that was sent again has handed in nothing: its jobs were handed in before,
                // unless a program has taken it.
                let after = step().await.map_err(|error| error.to_string())?;
                if matches!(answer, Ok(Operated::Done { .. })) && (after != before || self.is_foreign(&request)) {
                    self.waits.retain(|id, _| !handed_in.contains(id));
                }
            }
        }
        Ok(())
    }

    /// A step that takes jobs from the heads of the lines is one of Redis alone: SQLite deletes
    /// those that Redis has taken, and Redis takes none where SQLite leads.
    async fn without_pop(&self, stage: usize, mut request: Operate, all: &[JobId]) -> Check<Operate> {
        if let OperationDeed::Step(step) = &mut request.deed
            && step.part == OperationPart::Pop
            && !self.both_pop
        {
            let mut gone = Vec::new();
            for id in all {
                let [here, there] = [stage, 1 - stage].map(|stage| &self.stages[stage].overheard.inner);
                let (here, there) = (here.show(&self.queue, id).await, there.show(&self.queue, id).await);
                if let (Ok(None), Ok(Some(_))) = (here, there) {
                    gone.push(id.clone());
                }
            }
            step.examined = gone.len() as u64;
            step.part = OperationPart::Change { change: Change::Delete, reason: None, states: vec![JobState::Ready], ids: gone };
        }
        Ok(request)
    }

    /// Whether a program has taken this step under the name of its runner.
    fn is_foreign(&self, request: &Operate) -> bool {
        let OperationDeed::Step(step) = &request.deed else { return false };
        self.foreign.as_ref().is_some_and(|(id, foreign)| **id == *request.id && *foreign == step.step)
    }

    /// The jobs of a step that the other side has not taken yet. One that is in other states than
    /// those of the step is not concerned by it.
    async fn handed_in(&self, other: &DynBroker, request: &Operate) -> Check<Vec<JobId>> {
        let OperationDeed::Step(OperationStep { part: OperationPart::Change { ids, states, .. }, .. }) = &request.deed else {
            return Ok(Vec::new());
        };
        let jobs = join_all(ids.iter().map(|id| other.show(&self.queue, id))).await;
        let jobs = jobs.into_iter().collect::<Result<Vec<_>>>().map_err(|error| error.to_string())?;
        Ok(jobs.into_iter().flatten().filter(|job| states.contains(&job.state)).map(|job| job.id).collect())
    }
}
