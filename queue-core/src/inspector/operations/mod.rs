//! Operations on all matching jobs of a queue: start, show and stop them. `run` runs their steps.

mod run;

use serde::Serialize;

pub use self::run::RunOperation;
use super::{Filter, Inspector, JobRecord};
use crate::{
    address::check_queue,
    broker::{JobState, Operate, Operated, Operation, OperationDeed, OperationKind, PAUSED_BY_MAX, ProcessId, Scan, StartOperation},
    error::{Error, Result},
    text::cut,
};

/// Jobs that are examined together.
const EXAMINED_AT_ONCE: usize = 250;

/// An operation to start with [`Inspector::start_operation`].
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct NewOperation {
    /// The change of the jobs.
    pub kind: OperationKind,
    /// The filter for the jobs.
    pub filter: Filter,
    /// The name of the operator.
    pub by: Option<String>,
    is_all: bool,
    is_detached: bool,
}

impl NewOperation {
    /// An operation on the jobs that match and to which the kind applies. An empty filter needs
    /// [`all`](Self::all).
    ///
    /// ```
    /// use queue_core::inspect::{Filter, NewOperation, OperationKind};
    ///
    /// let filter: Filter = "state=dead error~timeout older=2d".parse()?;
    /// let again = NewOperation::new(OperationKind::Requeue, filter).by("ada");
    /// # Ok::<(), queue_core::Error>(())
    /// ```
    pub fn new(kind: OperationKind, filter: Filter) -> Self {
        NewOperation { kind, filter, by: None, is_all: false, is_detached: false }
    }

    /// An operation on all waiting jobs, or on all except running ones: see
    /// [`OperationKind::Drain`] and [`OperationKind::Purge`].
    pub fn all_of(kind: OperationKind) -> Self {
        NewOperation::new(kind, Filter::default()).all()
    }

    /// An empty filter is meant: all jobs to which it applies.
    #[must_use]
    pub fn all(mut self) -> Self {
        self.is_all = true;
        self
    }

    /// The operator who starts it. A name over 128 bytes is cut.
    #[must_use]
    pub fn by(mut self, who: impl Into<String>) -> Self {
        self.by = Some(cut(who.into(), PAUSED_BY_MAX)).filter(|who| !who.is_empty());
        self
    }

    /// The caller does not run the operation: a worker of the queue does, within a minute.
    #[must_use]
    pub fn detached(mut self) -> Self {
        self.is_detached = true;
        self
    }

    /// The states of the jobs that it concerns.
    pub fn states(&self) -> Vec<JobState> {
        states(self.kind, &self.filter)
    }

    fn check(&self) -> Result<()> {
        if self.filter.is_empty() && !self.is_all {
            let problem = format!("is empty: all jobs would be {}; write a filter, or confirm that you mean all jobs", self.kind.done());
            return Err(Error::invalid("filter", "", problem));
        }
        if !self.filter.is_empty() && self.kind.takes_all() {
            let problem = format!("cannot be set for a {}, which applies to all jobs; use delete or cancel with a filter", self.kind);
            return Err(Error::invalid("filter", self.filter.to_string(), problem));
        }
        if self.states().is_empty() {
            let applies: Vec<_> = JobState::ALL.into_iter().filter(|state| self.kind.applies_to(*state)).map(JobState::name).collect();
            let problem = format!("matches no job that can be {}: those are {}", self.kind.done(), applies.join(", "));
            return Err(Error::invalid("filter", self.filter.to_string(), problem));
        }
        Ok(())
    }
}

/// Without an answer the operation may have begun: the operator can check.
fn without_answer(error: Error, queue: &str, id: &str) -> Error {
    match error {
        Error::Ambiguous { broker, problem, cause } => {
            let problem = format!("{problem}; `operations show {queue}/{id}` prints whether the operation has started");
            Error::Ambiguous { broker, problem, cause }
        }
        error => error,
    }
}

fn states(kind: OperationKind, filter: &Filter) -> Vec<JobState> {
    filter.states().into_iter().filter(|state| kind.applies_to(*state)).collect()
}

/// The preview of an operation. From [`Inspector::preview_operation`]. It is
/// [`Serialize`](serde::Serialize): the fields by their names.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[non_exhaustive]
pub struct OperationPreview {
    /// How many of the examined jobs match.
    pub eligible: u64,
    /// How many jobs were examined.
    pub examined: u64,
    /// The approximate number of jobs to examine.
    pub total: u64,
    /// Whether all jobs were examined.
    pub is_whole: bool,
}

impl Inspector {
    /// Starts an operation: a change of all matching jobs of a queue, in steps. It changes jobs
    /// that were enqueued before, by the broker's clock, and have not ended since. With a term
    /// `tag.NAME=VALUE` it examines only the jobs that have this tag, or those in its states if
    /// they are fewer. The reason is that of [`because`](Self::because): cancelled jobs have it.
    ///
    /// This stores that it is wanted. [`run_operation`](Self::run_operation) does it. If its
    /// process crashes, a worker of the queue continues it.
    ///
    /// ```
    /// use queue_core::{inspect::{NewOperation, OperationKind, OperationState}, prelude::*};
    ///
    /// #[task(queue = "orders")]
    /// async fn close_order(order: u64) {}
    ///
    /// # async fn example() -> queue_core::Result<()> {
    /// let client = Client::connect("sqlite://:memory:").await?;
    /// close_order::job(17).enqueue(&client).await?;
    /// let inspector = client.inspector();
    /// let started = inspector.start_operation("orders", &NewOperation::all_of(OperationKind::Drain)).await?;
    /// let mut run = inspector.run_operation(&started);
    /// while run.step().await? {}
    /// assert_eq!(run.operation().state, OperationState::Completed);
    /// # Ok(()) }
    /// # tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap().block_on(example()).unwrap();
    /// ```
    ///
    /// # Errors
    /// [`Error::OperationUnderWay`]: a queue has one at a time. [`Error::Ambiguous`]: it may have begun, and the message has its address. [`Error::Invalid`] for an empty filter without [`all`](NewOperation::all), and for a filter that matches no job to
    /// which the operation applies.
    pub async fn start_operation(&self, queue: &str, new: &NewOperation) -> Result<Operation> {
        check_queue(queue)?;
        new.check()?;
        let filter = new.filter.to_string();
        // The next runner parses it again.
        if filter.parse::<Filter>().ok().as_ref() != Some(&new.filter) {
            return Err(Error::invalid("filter", filter, "cannot be stored: the name of a header in it has a space"));
        }
        let start = StartOperation {
            kind: new.kind,
            filter,
            by: new.by.clone(),
            reason: self.reason.as_deref().map(str::to_owned),
            total: self.shortest(&walk(queue, &new.states(), &new.filter)).await?.1,
            runner: (!new.is_detached).then(|| ProcessId::random().to_string().into()),
        };
        let id = ProcessId::random().to_string();
        let answer = self.operate(Operate::new(queue, id.clone(), OperationDeed::Start(start))).await;
        match answer.map_err(|error| without_answer(error, queue, &id))? {
            Operated::Done { mut operation, .. } => {
                operation.is_own = true;
                Ok(operation)
            }
            Operated::UnderWay(other) => Err(Error::OperationUnderWay(other.address())),
            _ => Err(Error::Internal(format!("operation `{queue}/{id}` was not started"))),
        }
    }

    /// The number of jobs that an operation would change. It examines at most about this many jobs,
    /// and reports whether these were all.
    ///
    /// # Errors
    /// [`Error::Invalid`], as [`start_operation`](Self::start_operation).
    pub async fn preview_operation(&self, queue: &str, new: &NewOperation, at_most: u64) -> Result<OperationPreview> {
        check_queue(queue)?;
        new.check()?;
        let (mut request, total) = self.shortest(&walk(queue, &new.states(), &new.filter)).await?;
        let (mut preview, mut read) = (OperationPreview { eligible: 0, examined: 0, total, is_whole: false }, 0);
        while read < at_most && !preview.is_whole {
            let step = self.step_of(&request, new.filter.needs_reasons()).await?;
            let now = self.broker.clock().now();
            preview.eligible += step.jobs.iter().filter(|job| new.filter.matches(job, now)).count() as u64;
            (preview.examined, read) = (preview.examined + step.examined, read + step.read.max(step.examined));
            preview.is_whole = step.next.is_none();
            request.after = step.next;
        }
        Ok(preview)
    }

    /// The operations of a queue: the one that is under way, and the last that have ended. The
    /// newest first.
    ///
    /// # Errors
    /// Those of the broker, here and below.
    pub async fn operations(&self, queue: &str) -> Result<Vec<Operation>> {
        check_queue(queue)?;
        let of = queue.to_owned();
        let ask = move |broker: crate::broker::DynBroker| {
            let of = of.clone();
            async move { broker.operations(&of).await }
        };
        let mut operations = self.ask(self.until(), ask).await?;
        operations.sort_by(|one, other| (other.started_ms, &other.id).cmp(&(one.started_ms, &one.id)));
        Ok(operations)
    }

    /// One operation.
    ///
    /// # Errors
    /// [`Error::NoSuchOperation`].
    pub async fn operation(&self, queue: &str, id: &str) -> Result<Operation> {
        let found = self.operations(queue).await?.into_iter().find(|operation| operation.id == id);
        found.ok_or_else(|| Error::NoSuchOperation(format!("{queue}/{id}")))
    }

    /// Stops an operation: no further step is run, and changes of earlier steps are kept. Returns
    /// its progress. An operation that has ended before is not changed.
    ///
    /// # Errors
    /// [`Error::NoSuchOperation`].
    pub async fn stop_operation(&self, queue: &str, id: &str) -> Result<Operation> {
        match self.operate(Operate::new(queue, id, OperationDeed::Stop)).await? {
            Operated::Done { operation, .. } => Ok(operation),
            _ => Err(Error::NoSuchOperation(format!("{queue}/{id}"))),
        }
    }

    async fn operate(&self, request: Operate) -> Result<Operated> {
        self.repeat(self.until(), move |broker| {
            let request = request.clone();
            async move { broker.operate(&request).await }
        })
        .await
    }

    async fn step_of(&self, request: &Scan, adds_reasons: bool) -> Result<Step> {
        let found = self.scanned(self.until(), request).await?;
        let mut jobs = self.records(&request.queue, found.jobs).await?;
        if adds_reasons {
            self.add_reasons(&request.queue, &mut jobs).await?;
        }
        Ok(Step { jobs, examined: found.examined, read: found.read, next: found.next })
    }

    /// A walk by a tag, or through the states if they have fewer jobs, and the number of jobs that
    /// it examines.
    async fn shortest(&self, request: &Scan) -> Result<(Scan, u64)> {
        let by_states = Scan { tag: None, ..request.clone() };
        let (stats, all) = (self.stats(&request.queue).await?, by_states.scans_whole_queue());
        let total = JobState::ALL.into_iter().filter(|state| all || request.states.contains(state)).map(|state| stats.count(state)).sum();
        if request.tag.is_some() {
            let counts = Scan { limit: 1, counts: true, ..request.clone() };
            let of = self.scanned(self.until(), &counts).await?.of.unwrap_or_default();
            if of <= total {
                return Ok((request.clone(), of));
            }
        }
        Ok((by_states, total))
    }
}

/// The result of a step of a walk: jobs, the number of examined jobs, the number of jobs that were
/// read for it, and where the walk continues.
struct Step {
    jobs: Vec<JobRecord>,
    examined: u64,
    read: u64,
    next: Option<Vec<u8>>,
}

/// The walk of an operation through the jobs that it may concern: by a tag, if the filter names
/// one.
fn walk(queue: &str, states: &[JobState], filter: &Filter) -> Scan {
    Scan::new(queue, states, EXAMINED_AT_ONCE).including_moved().matching(filter).uncounted()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn problem(kind: OperationKind, filter: &str) -> Option<String> {
        NewOperation::new(kind, filter.parse().unwrap()).check().err().map(|error| error.to_string())
    }

    #[test]
    fn an_operation_reports_which_jobs_it_concerns() {
        assert!(problem(OperationKind::Cancel, "").unwrap().contains("confirm that you mean all jobs"));
        assert!(problem(OperationKind::Promote, "state=dead").unwrap().contains("those are scheduled, retry"));
        assert!(problem(OperationKind::Purge, "task=a").unwrap().contains("applies to all jobs"));
        assert_eq!(problem(OperationKind::Requeue, "state=dead"), None);
        assert_eq!(NewOperation::all_of(OperationKind::Drain).check().map_err(|error| error.to_string()), Ok(()));
        assert_eq!(
            NewOperation::new(OperationKind::Requeue, Filter::default()).states(),
            [JobState::Dead, JobState::Cancelled, JobState::Expired]
        );
    }
}
