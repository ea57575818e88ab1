//! Operations as steps of a story: what is done to all jobs that match, one step at a time, while jobs come, run and go between the steps.
//!
//! Runners are those of the library. What they ask of the broker is written down, and asked of the model once more. Pages are short, so that a walk has several.

use std::{
    collections::BTreeMap,
    fmt,
    sync::{Arc, Mutex},
    time::{Duration, SystemTime, UNIX_EPOCH},
};

use async_trait::async_trait;
use proptest::{collection::vec, prelude::*};
use queue_conformance::model::{Model, Place};
use queue_core::{
    Client, Error, Inspector, JobAddress, JobId, NewOperation, Operation, OperationKind, OperationState, Priority, Result, RunOperation,
    broker::{
        Broker, Change, DynBroker, Inspect, JobState, Operate, Operated, OperationDeed, OperationPart, OperationStep, Scan, Scanned,
        StoredJob,
    },
    delegate_broker, delegate_inspect,
};

use crate::{
    compare::{Check, outcome, same},
    step::{Index, index},
    world::now_ms,
};

/// Jobs of a page.
pub(crate) const PAGE: usize = 3;

/// Runners that go on side by side.
pub(crate) const RUNNERS: usize = 3;

/// What people and runners do with the operations of a queue.
#[derive(Clone, Debug)]
pub(crate) enum Operating {
    /// A person starts one; `detached`: it has no runner yet; `on_redis`: which of two brokers its runners work on.
    Start { on_redis: bool, kind: OperationKind, filter: &'static str, detached: bool },
    /// One of the runners takes `steps` steps.
    Run { runner: Index, steps: usize },
    /// Another runner comes, and takes over at once or when the one before is gone.
    Join { at_once: bool },
    /// A runner goes away.
    Leave { runner: Index },
    /// A person stops the last one.
    Stop,
    /// A program takes a step of the last one under the name of its runner or under another name, whose number is the next one or off by one.
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
            .prop_map(|(on_redis, kind, filter, detached)| Operating::Start { on_redis, kind, filter, detached }),
        8 => (index(), 1..5usize).prop_map(|(runner, steps)| Operating::Run { runner, steps }),
        2 => any::<bool>().prop_map(|at_once| Operating::Join { at_once }),
        1 => index().prop_map(|runner| Operating::Leave { runner }),
        1 => Just(Operating::Stop),
        2 => (prop::bool::weighted(0.7), -1..=1i64, change, states, vec(index(), 0..3))
            .prop_map(|(is_runner, off, change, states, jobs)| Operating::Step { is_runner, off, change, states, jobs }),
    ]
}

/// What was asked of the broker, when, and what it has answered.
#[derive(Debug)]
enum Asked {
    Operate(Box<(Operate, i64, std::result::Result<Operated, String>)>),
    Scan(Scanned),
}

/// A broker with short pages that writes down what runners ask of it.
pub(crate) struct Overheard {
    inner: DynBroker,
    asked: Mutex<Vec<Asked>>,
}

impl fmt::Debug for Overheard {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Overheard").finish_non_exhaustive()
    }
}

impl Overheard {
    fn note(&self, asked: Asked) {
        self.asked.lock().expect("no one panics with it").push(asked);
    }
}

#[async_trait]
impl Broker for Overheard {
    delegate_broker!(self.inner);
}

#[async_trait]
impl Inspect for Overheard {
    delegate_inspect!(self.inner, except scan, operate);

    async fn scan(&self, request: &Scan) -> Result<Scanned> {
        let mut request = request.clone();
        request.limit = PAGE;
        let found = self.inner.scan(&request).await?;
        self.note(Asked::Scan(found.clone()));
        Ok(found)
    }

    async fn operate(&self, request: &Operate) -> Result<Operated> {
        let at = now_ms();
        let answer = self.inner.operate(request).await;
        let told = answer.as_ref().map(Clone::clone).map_err(ToString::to_string);
        self.note(Asked::Operate(Box::new((request.clone(), at, told))));
        answer
    }
}

/// What an operation goes by, of a job.
#[derive(Clone, Debug, PartialEq)]
struct Concerned {
    envelope: Vec<u8>,
    priority: Priority,
    attempts: u32,
    failures: usize,
    /// Its end, if it has ended: its place then.
    ended: Option<Place>,
}

fn concerned(model: &Model, id: &JobId) -> Option<(JobState, Concerned)> {
    let job = model.jobs.get(id)?;
    let record = job.record(id);
    let ended = record.state.is_final().then(|| job.place().clone());
    let (envelope, priority, attempts) = (record.envelope, record.priority, record.attempts);
    Some((record.state, Concerned { envelope, priority, attempts, failures: record.failures.len(), ended }))
}

/// The operations of a story.
pub(crate) struct Operations {
    queue: Arc<str>,
    overheard: Arc<Overheard>,
    inspector: Inspector,
    runners: Vec<RunOperation>,
    /// Jobs that the last operation concerned when it was started, and what they were then, as long as they have stayed in its states and were not handed in.
    waits: BTreeMap<JobId, Concerned>,
    /// Its states.
    states: Vec<JobState>,
    last: String,
    /// The operation and the number of the last step that a program has taken under the name of a runner. The runner's own step of this number is taken for it, sent again.
    foreign: Option<(String, u64)>,
}

impl Operations {
    pub(crate) fn new(broker: &DynBroker, queue: &Arc<str>) -> Operations {
        let overheard = Arc::new(Overheard { inner: broker.clone(), asked: Mutex::default() });
        let inspector = Client::with_broker(overheard.clone()).inspector();
        Operations {
            queue: queue.clone(),
            overheard,
            inspector,
            runners: Vec::new(),
            waits: BTreeMap::new(),
            states: Vec::new(),
            last: String::new(),
            foreign: None,
        }
    }

    /// Does it. `named`: the jobs of a step; `all`: those that ever were.
    pub(crate) async fn act(&mut self, model: &mut Model, step: &Operating, named: Vec<JobId>, all: &[JobId]) -> Check {
        let last =
            model.operations().into_iter().max_by_key(|operation| (operation.is_running(), operation.started_ms, operation.id.clone()));
        match step {
            Operating::Start { kind, filter, detached, on_redis: _ } => self.start(model, *kind, filter, *detached, all).await?,
            Operating::Run { runner, steps } => {
                for _ in 0..*steps {
                    if self.runners.is_empty() {
                        return Ok(());
                    }
                    let at = runner.index(self.runners.len());
                    let goes_on = self.runners[at].step().await.map_err(|error| error.to_string())?;
                    self.replay(model, all).await?;
                    self.moved(model);
                    self.is_whole(self.runners[at].operation())?;
                    if !goes_on {
                        self.runners.remove(at);
                        break;
                    }
                }
            }
            Operating::Join { at_once } => {
                if let Some(operation) = last {
                    let run = self.inspector.run_operation(&operation);
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
                    let stopped = self.inspector.stop_operation(&self.queue, &operation.id).await;
                    stopped.map_err(|error| error.to_string())?;
                }
            }
            Operating::Step { is_runner, off, change, states, jobs: _ } => {
                if let Some(operation) = last {
                    let runner = operation.runner.clone().filter(|_| *is_runner).unwrap_or_else(|| "stranger".to_owned());
                    let number = operation.step.saturating_add_signed(*off);
                    let part = OperationPart::Change { change: *change, reason: None, states: states.clone(), ids: named };
                    let position = operation.position.clone();
                    let step = OperationStep {
                        runner: runner.into(),
                        step: number,
                        part,
                        position,
                        looked: 1,
                        skipped: 0,
                        end: None,
                        problem: None,
                    };
                    let request = Operate::new(self.queue.clone(), &*operation.id, OperationDeed::Step(step));
                    let answer = self.overheard.operate(&request).await.map_err(|error| error.to_string())?;
                    if matches!(answer, Operated::Done { .. }) {
                        self.foreign = Some((operation.id, number));
                    }
                }
            }
        }
        self.replay(model, all).await
    }

    fn join(&mut self, run: RunOperation) {
        self.runners.push(run);
        if self.runners.len() > RUNNERS {
            self.runners.remove(0);
        }
    }

    async fn start(&mut self, model: &mut Model, kind: OperationKind, filter: &str, detached: bool, all: &[JobId]) -> Check {
        let filter = if kind.takes_all() { "" } else { filter };
        let new = NewOperation::new(kind, filter.parse().expect("it is a filter")).all();
        let new = if detached { new.detached() } else { new };
        match self.inspector.start_operation(&self.queue, &new).await {
            Ok(started) => {
                self.replay(model, all).await?;
                let (upto, now) = (UNIX_EPOCH + Duration::from_millis(started.started_ms.unsigned_abs()), SystemTime::now());
                (self.waits, self.states, self.last) = (BTreeMap::new(), new.states(), started.id.clone());
                for id in all {
                    let Ok(job) = self.inspector.show(&JobAddress { queue: self.queue.clone(), id: id.clone() }).await else { continue };
                    let last = job.ended_at.or_else(|| job.errors.last().and_then(|error| error.at));
                    let was_there = [job.enqueued_at, last].into_iter().flatten().all(|at| at <= upto);
                    if was_there && new.states().contains(&job.state) && new.filter.matches(&job, now) {
                        let (_, known) = concerned(model, id).ok_or("a job that the broker has is none of the model")?;
                        self.waits.insert(id.clone(), known);
                    }
                }
                if !detached {
                    self.join(self.inspector.run_operation(&started));
                }
                Ok(())
            }
            Err(Error::OperationUnderWay(_) | Error::Invalid { .. }) => Ok(()),
            Err(error) => Err(format!("an operation is not started: {error}")),
        }
    }

    /// After each step of a story. A job that is in none of the states may be passed over, as the operation may look for it just then. One that has ended or failed since, or has become
    /// another job by an edit or a replacement, is not concerned any more. A job that has only moved, from one of the states to another or within one, is met wherever it is.
    pub(crate) fn moved(&mut self, model: &Model) {
        let (waits, states) = (&mut self.waits, &self.states);
        waits.retain(|id, then| concerned(model, id).is_some_and(|(state, now)| states.contains(&state) && now == *then));
    }

    /// An operation that is completed has met all jobs that have stayed in its states since it was started.
    fn is_whole(&self, operation: &Operation) -> Check {
        match operation.state {
            OperationState::Completed if operation.id == self.last && !self.waits.is_empty() => {
                Err(format!("{} {} has passed over {:?}", operation.kind, operation.filter, self.waits))
            }
            OperationState::Failed => Err(format!("an operation has failed: {:?}", operation.problem)),
            _ => Ok(()),
        }
    }

    /// Asks the model what was asked of the broker.
    async fn replay(&mut self, model: &mut Model, all: &[JobId]) -> Check {
        let asked = std::mem::take(&mut *self.overheard.asked.lock().expect("no one panics with it"));
        for asked in asked {
            match asked {
                Asked::Scan(found) => {
                    for job in found.jobs {
                        let id = job.id.clone();
                        let known = model.jobs.get(&id).map(|known| known.record(&id).listed());
                        same(&format!("job {id} on a page"), &known.map(state_and_envelope), &Some(state_and_envelope(job)))?;
                    }
                }
                Asked::Operate(asked) => {
                    let (request, at, found) = *asked;
                    model.now = at;
                    let popped = match &request.deed {
                        OperationDeed::Step(step) if step.part == OperationPart::Pop => self.popped(model, &request, all).await?,
                        _ => Vec::new(),
                    };
                    let handed_in = handed_in(model, &request);
                    let steps = |model: &Model| model.operations().iter().find(|known| *known.id == *request.id).map(|known| known.step);
                    let before = steps(model);
                    let known = outcome(model.operate_popping(&request, &popped));
                    model.tell_transitions();
                    same("an operation", &known.map(timeless), &found.clone().map(timeless))?;
                    if let Ok(Operated::Done { operation, .. }) = &found {
                        model.adopt_operation(operation);
                        // One that was sent again has handed in nothing: its jobs were handed in before, unless a program has taken it.
                        if steps(model) != before || self.is_foreign(&request) {
                            self.waits.retain(|id, _| !handed_in.contains(id));
                        }
                    }
                }
            }
        }
        Ok(())
    }

    /// Whether a program has taken this step under the name of its runner.
    fn is_foreign(&self, request: &Operate) -> bool {
        let OperationDeed::Step(step) = &request.deed else { return false };
        self.foreign.as_ref().is_some_and(|(id, foreign)| **id == *request.id && *foreign == step.step)
    }

    /// The jobs that the broker has taken from the heads of its lines: it may take those that are ready, and were there before.
    async fn popped(&self, model: &Model, request: &Operate, all: &[JobId]) -> Check<Vec<JobId>> {
        let mut gone = Vec::new();
        for id in all {
            let Some(job) = model.jobs.get(id) else { continue };
            if self.overheard.inner.show(&self.queue, id).await.map_err(|error| error.to_string())?.is_some() {
                continue;
            }
            let record = job.record(id);
            let started =
                model.operations().iter().find(|operation| *operation.id == *request.id).map_or(0, |operation| operation.started_ms);
            let failed = record.failures.last().map_or(0, |failure| failure.at_ms);
            let part = OperationPart::Change { change: Change::Delete, reason: None, states: vec![JobState::Ready], ids: Vec::new() };
            if !part.concerns(&record, started) || failed > started {
                return Err(format!("{id} was taken from the head of a line, and is not concerned: {record:?}"));
            }
            gone.push(id.clone());
        }
        Ok(gone)
    }
}

/// The jobs of a step, before it is taken. One that is in other states than those of the step is not concerned by it.
fn handed_in(model: &Model, request: &Operate) -> Vec<JobId> {
    let OperationDeed::Step(OperationStep { part: OperationPart::Change { ids, states, .. }, .. }) = &request.deed else {
        return Vec::new();
    };
    let is_in = |id: &&JobId| model.jobs.get(*id).is_some_and(|job| states.contains(&job.place().state()));
    ids.iter().filter(is_in).cloned().collect()
}

fn state_and_envelope(job: StoredJob) -> (JobState, Vec<u8>, Vec<String>) {
    (job.state, job.envelope, job.failures.into_iter().map(|failure| failure.message).collect())
}

/// An answer without its times, which two clocks may tell differently.
fn timeless(operated: Operated) -> (&'static str, Option<Operation>) {
    let (word, operation) = match operated {
        Operated::Done { operation, more: true } => ("done, and there may be more", operation),
        Operated::Done { operation, more: false } => ("done", operation),
        Operated::UnderWay(operation) => ("under way", operation),
        Operated::Other(operation) => ("other", operation),
        _ => return ("none", None),
    };
    (word, Some(without_times(operation)))
}

fn without_times(mut operation: Operation) -> Operation {
    (operation.started_ms, operation.stepped_ms) = (0, 0);
    operation.ended_ms = operation.ended_ms.map(|_| 0);
    operation
}

/// What is kept of operations.
pub(crate) async fn same_operations(model: &Model, broker: &DynBroker, queue: &str) -> Check {
    let sorted = |operations: Vec<Operation>| {
        let mut operations: Vec<Operation> = operations.into_iter().map(without_times).collect();
        operations.sort_by(|one, other| one.id.cmp(&other.id));
        operations
    };
    let found = broker.operations(queue).await.map_err(|error| error.to_string())?;
    same("operations", &sorted(model.operations()), &sorted(found))
}
