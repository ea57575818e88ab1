//! The steps of an operation, taken by its runner: the process that has started it, or a worker.

use std::{
    sync::Arc,
    time::{Duration, UNIX_EPOCH},
};

use tokio::time::Instant;

use super::{Step, states, walk};
use crate::{
    address::JobId,
    broker::{
        Change, JobState, Operate, Operated, Operation, OperationDeed, OperationPart, OperationState, OperationStep, ProcessId,
        REQUEUED_AT_ONCE, Scan, on_broker,
    },
    error::{Error, Result},
    inspector::{
        Filter, Inspector, JobRecord,
        search::{bytes_of, text_of},
    },
};

/// Most jobs that one step changes.
const CHANGED_AT_ONCE: usize = 200;

/// The longest time between two progress reports of a runner: well within
/// [`OPERATION_LEASE`](crate::broker::OPERATION_LEASE).
const NOTED_EVERY: Duration = Duration::from_secs(1);

/// While jobs of the queue run, a runner rests for this many times as long as the last step took:
/// the workers have four fifths of the server.
const RESTS: u32 = 4;

/// The longest of these rests.
const LONGEST_REST: Duration = Duration::from_secs(1);

/// The interval at which a runner checks whether jobs of the queue run.
const ASKED_EVERY: Duration = Duration::from_secs(1);

/// The position of a drain or a purge that has taken all it can from the heads of the lines.
const POPPED: &str = "popped";

/// Before a position in the index of tags.
const BY_TAG: &str = "tag:";

/// Runs the steps of an operation. From [`Inspector::run_operation`].
///
/// It may be dropped between two steps. Another runner, in this process or in another, continues
/// once no step was taken for ten seconds.
#[derive(Debug)]
pub struct RunOperation {
    inspector: Inspector,
    operation: Operation,
    runner: Arc<str>,
    at_once: bool,
    filter: Filter,
    is_runner: bool,
    /// Where the next page begins, and what was examined since the last submitted step.
    after: Option<String>,
    examined: u64,
    skipped: u64,
    noted: Instant,
    pace: Pace,
}

/// How long it rests between two steps.
#[derive(Debug, Default)]
struct Pace {
    asked: Option<Instant>,
    is_busy: bool,
    took: Duration,
}

impl RunOperation {
    fn new(inspector: Inspector, operation: Operation) -> Self {
        // The process that has started it is the runner already. The name is unique: otherwise a
        // step of another runner could count as a repetition of this runner's step.
        let runner = operation.runner.clone().filter(|_| operation.is_own).unwrap_or_else(|| ProcessId::random().to_string());
        RunOperation {
            inspector,
            operation,
            runner: runner.into(),
            at_once: false,
            filter: Filter::default(),
            is_runner: false,
            after: None,
            examined: 0,
            skipped: 0,
            noted: Instant::now(),
            pace: Pace::default(),
        }
    }

    /// Takes it over at once, even if its last runner is still alive: that runner changes nothing
    /// from then on.
    #[must_use]
    pub fn at_once(mut self) -> Self {
        self.at_once = true;
        self
    }

    /// The operation as it was after the last step.
    pub fn operation(&self) -> &Operation {
        &self.operation
    }

    /// Examines some hundred jobs, and changes the matching ones. False: the operation has ended,
    /// or another runner runs its steps: see
    /// [`Operation::state`](crate::inspect::Operation::state).
    ///
    /// # Errors
    /// [`Error::NoSuchOperation`] if the broker has lost it, and those of the broker: the next step
    /// tries again. If the broker rejects a step permanently, the operation fails.
    pub async fn step(&mut self) -> Result<bool> {
        self.yield_to_workers().await?;
        let begun = Instant::now();
        let answer = if self.is_runner { self.next_step().await } else { self.take().await };
        self.pace.took = begun.elapsed();
        match answer {
            // The position is that of another release: the walk restarts, and changes no job twice.
            Err(Error::Invalid { field: "cursor", .. }) if self.is_runner && self.after.is_some() => {
                (self.after, self.examined, self.skipped) = (None, 0, 0);
                Ok(true)
            }
            Err(Error::Invalid { field, value, problem }) if self.is_runner => {
                let problem = format!("{field} `{value}` {problem}");
                self.submit_step(
                    self.changing(&[]),
                    self.operation.position.clone(),
                    (0, 0),
                    Some((OperationState::Failed, Some(problem))),
                )
                .await?;
                Ok(!self.is_over())
            }
            // It may have been carried out: the stored operation shows it.
            Err(error) => {
                self.is_runner = false;
                Err(error)
            }
            answer => answer,
        }
    }

    /// Pauses between steps while the workers of the queue have running jobs.
    async fn yield_to_workers(&mut self) -> Result<()> {
        if self.pace.asked.is_none_or(|asked| asked.elapsed() >= ASKED_EVERY) {
            self.pace.asked = Some(Instant::now());
            // If this call fails, the next step returns the error.
            let stats = self.inspector.stats(&self.operation.queue).await;
            self.pace.is_busy = stats.is_ok_and(|stats| stats.count(JobState::Active) > 0);
        }
        let pause = (self.pace.took * RESTS).min(LONGEST_REST);
        if self.pace.is_busy && !pause.is_zero() {
            on_broker(&self.inspector.broker, tokio::time::sleep(pause)).await?;
        }
        Ok(())
    }

    async fn next_step(&mut self) -> Result<bool> {
        if self.operation.kind.takes_all() && self.operation.position.is_none() {
            return self.pop().await;
        }
        let request = self.request().await?;
        let Step { jobs, examined, next, .. } = self.inspector.step_of(&request, self.filter.needs_reasons()).await?;
        let by = if request.tag.is_some() { BY_TAG } else { "" };
        let next = next.map(|place| format!("{by}{}", text_of(&place)));
        let now = self.inspector.broker.clock().now();
        let found = jobs.len();
        let ids: Vec<JobId> =
            jobs.into_iter().filter(|job| self.concerns(job) && self.filter.matches(job, now)).map(|job| job.address.id).collect();
        let (mut examined, skipped) = (self.examined + examined, self.skipped + (found - ids.len()) as u64);
        let is_last = next.is_none();
        if ids.is_empty() && !is_last && self.noted.elapsed() < NOTED_EVERY {
            (self.after, self.examined, self.skipped) = (next, examined, skipped);
            return Ok(true);
        }
        let change = self.operation.kind.change();
        let most = if change == Change::Requeue { REQUEUED_AT_ONCE } else { CHANGED_AT_ONCE };
        let mut parts: Vec<&[JobId]> = ids.chunks(most).collect();
        let last = parts.pop().unwrap_or_default();
        for part in parts {
            // It continues from the same position until all of these are submitted.
            let own = part.len() as u64;
            if !self.submit_step(self.changing(part), self.operation.position.clone(), (own, 0), None).await? {
                return Ok(!self.is_over());
            }
            examined = examined.saturating_sub(own);
        }
        let (counts, end) = ((examined, skipped), is_last.then_some((OperationState::Completed, None)));
        let next = next.or_else(|| self.operation.position.clone());
        if self.submit_step(self.changing(last), next.clone(), counts, end).await? {
            (self.after, self.examined, self.skipped) = (next, 0, 0);
        }
        Ok(!self.is_over())
    }

    /// The next step of the walk. The first one decides whether the walk uses the tag, and stores
    /// this in the position. If another release wrote an unreadable position, the walk starts over.
    async fn request(&self) -> Result<Scan> {
        let request = walk(&self.operation.queue, &states(self.operation.kind, &self.filter), &self.filter);
        let read = |text: &str| match text.strip_prefix(BY_TAG) {
            Some(place) => Some((bytes_of(place)?, true)),
            None => Some((bytes_of(text)?, false)),
        };
        match self.after.as_deref().and_then(read) {
            Some((place, true)) => Ok(request.after(Some(place))),
            Some((place, false)) => Ok(Scan { tag: None, ..request }.after(Some(place))),
            None if request.tag.is_some() => Ok(self.inspector.shortest(&request).await?.0),
            None => Ok(request),
        }
    }

    fn changing(&self, ids: &[JobId]) -> OperationPart {
        let states = states(self.operation.kind, &self.filter);
        OperationPart::Change { change: self.operation.kind.change(), reason: self.operation.reason.clone(), states, ids: ids.to_vec() }
    }

    /// Whether a job was in its present state when the operation was started: a job that was
    /// enqueued, has failed or has ended since is not changed.
    fn concerns(&self, job: &JobRecord) -> bool {
        let since = job.ended_at.or_else(|| job.errors.last().and_then(|error| error.at));
        let started = UNIX_EPOCH + Duration::from_millis(u64::try_from(self.operation.started_ms).unwrap_or(0));
        [job.enqueued_at, since].into_iter().flatten().all(|at| at <= started)
    }

    /// Becomes its runner. False: it has ended, or another one is at it.
    async fn take(&mut self) -> Result<bool> {
        let take = OperationDeed::Take { runner: self.runner.clone(), at_once: self.at_once };
        match self.ask(take).await? {
            Operated::Done { operation, .. } => {
                self.continue_from(operation)?;
                Ok(self.operation.is_running())
            }
            Operated::Other(operation) => {
                self.operation = operation;
                Ok(false)
            }
            _ => Err(self.no_such_operation()),
        }
    }

    /// Continues from the stored operation.
    fn continue_from(&mut self, operation: Operation) -> Result<()> {
        self.is_runner = operation.runner.as_deref() == Some(&*self.runner);
        self.after = operation.position.clone().filter(|position| position != POPPED);
        (self.operation, self.examined, self.skipped, self.noted) = (operation, 0, 0, Instant::now());
        // A filter of another release may have a field that this one does not know.
        self.filter = self.operation.filter.parse()?;
        Ok(())
    }

    /// Removes jobs at the heads of the lists.
    async fn pop(&mut self) -> Result<bool> {
        let (runner, step) = (self.runner.clone(), self.operation.step);
        let mut pop =
            OperationStep { runner, step, part: OperationPart::Pop, position: None, examined: 0, skipped: 0, end: None, problem: None };
        let more = match self.ask(OperationDeed::Step(pop.clone())).await? {
            Operated::Done { operation, more } => {
                self.operation = operation;
                more
            }
            answer => return self.restart_from_stored(answer),
        };
        if more || !self.operation.is_running() {
            return Ok(self.operation.is_running());
        }
        // This step changes no job. It records that the walk begins.
        (pop.step, pop.position, pop.part) = (self.operation.step, Some(POPPED.to_owned()), self.changing(&[]));
        match self.ask(OperationDeed::Step(pop)).await? {
            Operated::Done { operation, .. } => {
                self.operation = operation;
                Ok(self.operation.is_running())
            }
            answer => self.restart_from_stored(answer),
        }
    }

    /// One step, and how the operation has ended with it. False: it was not the turn of this one.
    async fn submit_step(
        &mut self,
        part: OperationPart,
        position: Option<String>,
        (examined, skipped): (u64, u64),
        end: Option<(OperationState, Option<String>)>,
    ) -> Result<bool> {
        let (end, problem) = end.map_or((None, None), |(end, problem)| (Some(end), problem));
        let (runner, step) = (self.runner.clone(), self.operation.step);
        let step = OperationStep { runner, step, part, position, examined, skipped, end, problem };
        match self.ask(OperationDeed::Step(step)).await? {
            Operated::Done { operation, .. } => {
                (self.operation, self.noted) = (operation, Instant::now());
                Ok(true)
            }
            answer => {
                self.restart_from_stored(answer)?;
                Ok(false)
            }
        }
    }

    /// The step was rejected: the operation was stopped or taken over, or a failover has lost the
    /// last steps. True: it continues from the stored state.
    fn restart_from_stored(&mut self, answer: Operated) -> Result<bool> {
        let Operated::Other(operation) = answer else { return Err(self.no_such_operation()) };
        self.continue_from(operation)?;
        Ok(self.is_runner && self.operation.is_running())
    }

    async fn ask(&self, deed: OperationDeed) -> Result<Operated> {
        self.inspector.operate(Operate::new(&*self.operation.queue, &*self.operation.id, deed)).await
    }

    fn no_such_operation(&self) -> Error {
        Error::NoSuchOperation(self.operation.address())
    }

    /// Whether it has ended, or another runner runs its steps.
    pub fn is_over(&self) -> bool {
        !self.operation.is_running() || !self.is_runner
    }
}

impl Inspector {
    /// Runs the steps of a running operation. The process that starts it is its first runner.
    /// Another runner takes over if no step was run for ten seconds.
    pub fn run_operation(&self, operation: &Operation) -> RunOperation {
        RunOperation::new(self.clone(), operation.clone())
    }
}
