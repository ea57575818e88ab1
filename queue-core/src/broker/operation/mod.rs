//! Operations: changes to all matching jobs of a queue, in steps. An operation survives a crash of
//! its runner.
//!
//! An operation is a record of its queue. A *runner* reads [some jobs](super::Inspect::scan) after
//! the position of the operation, and selects those that match. It submits them with one
//! [step](OperationStep). The step compares its number, changes the jobs, and stores the next
//! position and the counts, in one transition. A repeated step therefore changes nothing, and
//! neither does a step of a runner that another one has [replaced](OperationDeed::Take).
//!
//! A queue runs one operation at a time. The last [`OPERATIONS_KEPT`] are kept as its history.

mod kind;
mod stored;

use std::{sync::Arc, time::Duration};

pub use self::{
    kind::{OperationKind, OperationState},
    stored::Operation,
};
use super::{Change, Changed, JobState, MAX_ITEMS, StoredJob};
use crate::{
    address::{JobId, check_queue, subscription_at},
    envelope::Envelope,
    error::{Error, Result},
};

/// How many operations of a queue are kept: the one that is under way, and the last that have
/// ended.
pub const OPERATIONS_KEPT: usize = 20;

/// If the last step of a runner is older than this, the runner is considered gone, and another one
/// may take over.
pub const OPERATION_LEASE: Duration = Duration::from_secs(10);

/// Most jobs that a step requeues: their envelopes travel with it.
pub const REQUEUED_AT_ONCE: usize = 50;

/// The most jobs that a step removes at the heads of the lists.
pub const POPPED_AT_ONCE: usize = 500;

/// Longest text of a filter, of a reason, and of a position, in bytes.
const LONGEST_TEXT: usize = 1024;

/// Something that is done with an operation.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Operate {
    /// The queue.
    pub queue: Arc<str>,
    /// The id of the operation: letters, digits and `-`, at most 64.
    pub id: Arc<str>,
    /// The requested action.
    pub deed: OperationDeed,
}

/// An action on an operation.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum OperationDeed {
    /// Makes it, unless it exists or another one is under way.
    Start(StartOperation),
    /// Lets this runner take the next steps. It may do so if it is the present runner, if the last
    /// step of the present runner is older than [`OPERATION_LEASE`], or at once if requested. It
    /// counts as a step: a late request of an earlier step changes nothing.
    Take {
        /// Its name: letters and digits.
        runner: Arc<str>,
        /// Whether it does not wait for the lease of the previous runner.
        at_once: bool,
    },
    /// The next step.
    Step(OperationStep),
    /// Stops the operation. Changes of earlier steps are kept.
    Stop,
}

/// An operation that is to be started.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct StartOperation {
    /// The change of the jobs.
    pub kind: OperationKind,
    /// The filter as text.
    pub filter: String,
    /// The name of the operator.
    pub by: Option<String>,
    /// The reason.
    pub reason: Option<String>,
    /// The approximate number of jobs to examine.
    pub total: u64,
    /// The runner that takes the first step; `None`: any runner.
    pub runner: Option<Arc<str>>,
}

/// One step of an operation.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct OperationStep {
    /// The runner that takes the step.
    pub runner: Arc<str>,
    /// The number of earlier steps.
    pub step: u64,
    /// The changes of this step.
    pub part: OperationPart,
    /// The position of the next step.
    pub position: Option<String>,
    /// How many more jobs were examined.
    pub examined: u64,
    /// The number of further jobs that do not match.
    pub skipped: u64,
    /// The state in which it has ended with this step.
    pub end: Option<OperationState>,
    /// Why it has failed.
    pub problem: Option<String>,
}

/// The changes of a step.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum OperationPart {
    /// Changes these jobs, at most [`MAX_ITEMS`], or [`REQUEUED_AT_ONCE`]. A job is changed if it
    /// is in one of the states and was enqueued before the operation was started: it may have
    /// changed since it was examined, and another job may have its id.
    Change {
        /// The change.
        change: Change,
        /// Why they are cancelled.
        reason: Option<String>,
        /// The states in which jobs are changed.
        states: Vec<JobState>,
        /// Which.
        ids: Vec<JobId>,
    },
    /// Removes jobs at the heads of the lists of ready jobs, at most [`POPPED_AT_ONCE`], if they
    /// were enqueued before the operation was started. They leave no record and no tombstone. A
    /// broker whose lists have no tombstones does nothing.
    Pop,
}

impl OperationPart {
    /// For brokers: whether a job is concerned by the time of the step. `started_ms`: of its
    /// operation.
    pub fn concerns(&self, job: &StoredJob, started_ms: i64) -> bool {
        let OperationPart::Change { states, .. } = self else { return true };
        let enqueued = Envelope::decode(&job.envelope).ok().and_then(|envelope| envelope.enqueued_ms);
        states.contains(&job.state) && enqueued.is_none_or(|at| at <= started_ms)
    }
}

/// The outcome of an [`Operate`].
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Operated {
    /// It is done, or was done before.
    Done {
        /// The operation as it is now.
        operation: Operation,
        /// For a [`Pop`](OperationPart::Pop): whether there may be more jobs.
        more: bool,
    },
    /// The operation does not exist.
    NotFound,
    /// Another operation of the queue is running: this one.
    UnderWay(Operation),
    /// The operation has ended, is at another step, or has another runner. This is its present
    /// state.
    Other(Operation),
}

impl Operate {
    /// A request for an operation.
    pub fn new(queue: impl Into<Arc<str>>, id: impl Into<Arc<str>>, deed: OperationDeed) -> Self {
        Operate { queue: queue.into(), id: id.into(), deed }
    }

    /// For brokers: whether it can be done.
    ///
    /// # Errors
    /// [`Error::Invalid`] for a name outside the grammar, a text that is too long, and more jobs
    /// than a step may change.
    pub fn check(&self) -> Result<()> {
        check_queue(&self.queue)?;
        check_word("operation", &self.id)?;
        let bounded = |what: &'static str, text: Option<&str>| match text {
            Some(text) if text.len() > LONGEST_TEXT => {
                Err(Error::invalid(what, format!("{} bytes", text.len()), format!("is longer than {LONGEST_TEXT} bytes")))
            }
            _ => Ok(()),
        };
        match &self.deed {
            OperationDeed::Start(start) => {
                if start.kind.takes_all() && subscription_at(&self.queue).is_some() {
                    let problem = "is a subscription, which would continue with its unread events; use `topics rewind` with `--to now`";
                    return Err(Error::invalid("queue", &*self.queue, problem));
                }
                bounded("filter", Some(&start.filter))?;
                bounded("by", start.by.as_deref())?;
                bounded("reason", start.reason.as_deref())?;
                start.runner.as_deref().map_or(Ok(()), |runner| check_word("runner", runner))
            }
            OperationDeed::Take { runner, .. } => check_word("runner", runner),
            OperationDeed::Step(step) => {
                check_word("runner", &step.runner)?;
                bounded("position", step.position.as_deref())?;
                bounded("problem", step.problem.as_deref())?;
                if step.position.as_deref().is_some_and(|position| position.is_empty() || position.contains(char::is_whitespace)) {
                    return Err(Error::invalid("position", "", "is empty, or has a space in it"));
                }
                let OperationPart::Change { change, ids, reason, .. } = &step.part else { return Ok(()) };
                bounded("reason", reason.as_deref())?;
                let most = if *change == Change::Requeue { REQUEUED_AT_ONCE } else { MAX_ITEMS };
                if ids.len() > most {
                    return Err(Error::invalid("ids", ids.len().to_string(), format!("are more than the {most} of one step")));
                }
                Ok(())
            }
            OperationDeed::Stop => Ok(()),
        }
    }

    /// For brokers: applies this to the stored operations. If it is the step's turn, `change`
    /// changes the jobs; its argument is the time at which the operation was started.
    ///
    /// # Errors
    /// Those of `change`.
    pub fn carry_out<E>(
        &self,
        stored: &mut Vec<Operation>,
        now: i64,
        change: impl FnOnce(&OperationStep, i64) -> Result<Vec<Changed>, E>,
    ) -> Result<Operated, E> {
        let done = |operation: &Operation, more: bool| Operated::Done { operation: operation.clone(), more };
        let Some(at) = stored.iter().position(|operation| *operation.id == *self.id) else {
            let OperationDeed::Start(start) = &self.deed else { return Ok(Operated::NotFound) };
            if let Some(other) = stored.iter().find(|operation| operation.is_running()) {
                return Ok(Operated::UnderWay(other.clone()));
            }
            stored.sort_by_key(|operation| (operation.started_ms, operation.id.clone()));
            stored.drain(..stored.len().saturating_sub(OPERATIONS_KEPT - 1));
            let operation = Operation::started(&self.queue, &self.id, start, now);
            stored.push(operation.clone());
            return Ok(Operated::Done { operation, more: false });
        };
        let operation = &mut stored[at];
        match &self.deed {
            OperationDeed::Start(_) => {}
            OperationDeed::Stop => {
                if operation.is_running() {
                    operation.end(OperationState::Stopped, now);
                }
            }
            OperationDeed::Take { runner, at_once } => {
                let is_runner = operation.runner.as_deref() == Some(runner);
                if !operation.is_running() || !(is_runner || *at_once || operation.is_left(now)) {
                    return Ok(Operated::Other(operation.clone()));
                }
                // The step also grows for the current runner: a late request of an earlier step
                // must not count as the next step.
                operation.runner = Some(runner.to_string());
                operation.step += 1;
                operation.stepped_ms = now;
            }
            OperationDeed::Step(step) => {
                let is_runner = operation.runner.as_deref() == Some(&*step.runner);
                if is_runner && operation.step == step.step + 1 {
                    return Ok(done(operation, step.part == OperationPart::Pop));
                }
                if !is_runner || !operation.is_running() || operation.step != step.step {
                    return Ok(Operated::Other(operation.clone()));
                }
                for answer in change(step, operation.started_ms)? {
                    operation.examined += u64::from(step.part == OperationPart::Pop);
                    match answer {
                        Changed::Yes | Changed::WhileActive => operation.changed += 1,
                        Changed::No => operation.skipped += 1,
                        Changed::Held(_) => operation.failed += 1,
                    }
                }
                operation.step += 1;
                operation.stepped_ms = now;
                operation.position.clone_from(&step.position);
                operation.examined += step.examined;
                operation.skipped += step.skipped;
                operation.problem.clone_from(&step.problem);
                if let Some(end) = step.end {
                    operation.end(end, now);
                }
            }
        }
        Ok(done(operation, false))
    }
}

/// A word without spaces.
fn check_word(what: &'static str, word: &str) -> Result<()> {
    let is_word = (1..=64).contains(&word.len()) && word.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'-') && word != "-";
    if is_word { Ok(()) } else { Err(Error::invalid(what, word, "is not 1 to 64 letters, digits and `-`")) }
}
