//! Standing jobs of a run, and operations on all of them.

use std::{collections::BTreeSet, time::Duration};

use queue_core::{
    Handle,
    broker::JobState,
    inspect::{NewOperation, Operation as Stored, OperationKind, OperationState},
};

use super::{Bed, Problem, child::Operator};
use crate::{
    history::{Operation, Phase, Wish},
    process::OperatorOrders,
    work::{Plan, QUEUE, digest, work},
};

/// The prefix of the ids of standing jobs.
const STANDING: &str = "standing-";

/// The first number after those of all producers.
const FIRST: u64 = 1 << 60;

/// The delay of standing jobs.
const DAY: Duration = Duration::from_secs(24 * 3600);

/// The number of jobs in one call.
const BULK: u64 = 1_000;

impl Bed {
    /// Enqueues `jobs` jobs that wait until tomorrow.
    ///
    /// # Errors
    /// When they are not stored.
    pub async fn stand(&mut self, jobs: u64) -> Result<(), Problem> {
        let delay_ms = u64::try_from(DAY.as_millis())?;
        let note = |n: u64, id: Option<String>| {
            let (key, digest) = (FIRST + n, digest(FIRST + n, ""));
            Operation::Enqueue { key, id, digest, delay_ms, max_attempts: 25, existing: false, wish: Wish::Any, unique: None }
        };
        for first in (0..jobs).step_by(usize::try_from(BULK)?) {
            let numbers = first..jobs.min(first + BULK);
            self.recorder.note_all(numbers.clone().map(|n| (Phase::Invoke, note(n, None))));
            let job = |n: u64| work::job(FIRST + n, String::new(), Plan::default()).id(format!("{STANDING}{n}")).delay(DAY);
            self.client.enqueue_all(numbers.clone().map(job).collect::<Vec<_>>()).await?;
            self.recorder.note_all(numbers.map(|n| (Phase::Ok, note(n, Some(format!("{STANDING}{n}"))))));
        }
        Ok(())
    }

    /// Enqueues one job, which starts after `delay`.
    ///
    /// # Errors
    /// When it is not stored.
    pub async fn enqueue_one(&mut self, n: u64, plan: Plan, delay: Duration) -> Result<Handle<work>, Problem> {
        let key = 2 * FIRST + n;
        let (digest, delay_ms, wish) = (digest(key, ""), u64::try_from(delay.as_millis())?, Wish::Done);
        let note = |id| Operation::Enqueue { key, id, digest, delay_ms, max_attempts: 25, existing: false, wish, unique: None };
        self.recorder.note(Phase::Invoke, note(None));
        let handle = work::job(key, String::new(), plan).delay(delay).enqueue(&self.client).await?;
        self.recorder.note(Phase::Ok, note(Some(handle.id().to_string())));
        Ok(handle)
    }

    /// Starts an operation that cancels all standing jobs. It has no runner yet.
    ///
    /// # Errors
    /// When it is refused.
    pub async fn cancel_standing(&mut self, jobs: u64) -> Result<String, Problem> {
        self.recorder.note_all((0..jobs).map(|n| (Phase::Invoke, Operation::Cancel { id: format!("{STANDING}{n}") })));
        let new = NewOperation::new(OperationKind::Cancel, format!("id~{STANDING}").parse()?).by("driver").detached();
        Ok(self.client.inspector().start_operation(QUEUE, &new).await?.id)
    }

    /// Starts a process that executes its steps.
    ///
    /// # Errors
    /// When it cannot be started.
    pub fn start_operator(&self, operation: &str, pause: Duration) -> Result<Operator, Problem> {
        let line = self.place.line();
        let common = self.common("operator".to_owned(), line.url(&self.place));
        let orders = OperatorOrders { common, operation: operation.to_owned(), pause_ms: u64::try_from(pause.as_millis())? };
        Operator::start(&self.program, orders, line)
    }

    /// The stored operation; `None` while the broker is unreachable.
    pub async fn operation(&self, id: &str) -> Option<Stored> {
        self.client.inspector().operation(QUEUE, id).await.ok()
    }

    /// Waits until it has ended, and checks that it has made each change once: each standing job is
    /// cancelled, and its count is correct.
    ///
    /// # Errors
    /// If the check fails.
    pub async fn is_carried_out(&mut self, id: &str, jobs: u64) -> Result<Stored, Problem> {
        let of = id.to_owned();
        self.until("the operation to end", async |bed| bed.operation(&of).await.is_some_and(|operation| !operation.is_running())).await?;
        let ended = self.client.inspector().operation(QUEUE, id).await?;
        let (mut cancelled, mut walk) = (BTreeSet::new(), self.client.inspector().walk(QUEUE, JobState::Cancelled));
        while let Some(page) = walk.next().await? {
            let ids = page.into_iter().map(|job| job.address.id.to_string());
            cancelled.extend(ids.filter(|id| id.starts_with(STANDING)));
        }
        let done = cancelled.len() as u64;
        if ended.state != OperationState::Completed || done != jobs || ended.changed != done {
            return Err(format!("of {jobs} jobs that stood still {done} are cancelled: {ended:?}").into());
        }
        if ended.examined < ended.changed + ended.skipped + ended.failed {
            return Err(format!("what the operation has counted is more than what it has looked at: {ended:?}").into());
        }
        self.recorder.note_all((0..jobs).map(|n| (Phase::Ok, Operation::Cancel { id: format!("{STANDING}{n}") })));
        Ok(ended)
    }
}
