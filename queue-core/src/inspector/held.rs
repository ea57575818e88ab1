//! The jobs that a worker is running.

use futures_util::{
    FutureExt,
    future::BoxFuture,
    stream::{self, StreamExt, TryStreamExt},
};

use super::{Inspector, JobRecord, Page, Progress};
use crate::{
    broker::{JobState, MAX_ITEMS, ProcessId, WorkerRecord},
    error::{Error, Result},
};

/// Most active jobs that are examined to find those of one worker.
const EXAMINED: usize = 5_000;

/// Calls that are on their way at once.
const CALLS: usize = 16;

/// The jobs that a worker holds. From [`Inspector::jobs_of_worker`].
#[derive(Clone, Debug, Default)]
#[non_exhaustive]
pub struct WorkerJobs {
    /// The jobs, the first claimed first, with their [progress](JobRecord::progress).
    pub jobs: Vec<JobRecord>,
    /// Whether the list is complete. If not, the worker holds more jobs than requested, or its
    /// queues have more than 5,000 active jobs.
    pub is_whole: bool,
}

impl Inspector {
    /// A worker by its id, if it is registered with any queue.
    ///
    /// # Errors
    /// Those of the broker.
    pub async fn worker(&self, id: ProcessId) -> Result<Option<WorkerRecord>> {
        Ok(self.workers().await?.into_iter().find(|worker| worker.id == id))
    }

    /// The jobs that a worker holds now, at most `most` of them, with their progress: running jobs,
    /// and claimed jobs that have not begun. They are searched for among the active jobs of its
    /// queues, of which at most 5,000 are examined. This takes several calls, each of which has the
    /// deadline of the client.
    ///
    /// ```no_run
    /// # async fn example(client: queue_core::Client) -> queue_core::Result<()> {
    /// let inspector = client.inspector();
    /// for worker in inspector.workers().await? {
    ///     for job in inspector.jobs_of_worker(&worker, 100).await?.jobs {
    ///         println!("{} {}: {:?}", worker.host, job.address, job.progress);
    ///     }
    /// }
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Errors
    /// [`Error::Invalid`] if `most` is not between 1 and 500.
    pub async fn jobs_of_worker(&self, worker: &WorkerRecord, most: usize) -> Result<WorkerJobs> {
        if !(1..=MAX_ITEMS).contains(&most) {
            return Err(Error::invalid("most", most.to_string(), format!("is not between 1 and {MAX_ITEMS}")));
        }
        let (mut held, mut left) = (WorkerJobs { jobs: Vec::new(), is_whole: true }, EXAMINED);
        let first = |queue| self.list(queue, JobState::Active, 0, MAX_ITEMS).boxed();
        let first: Vec<BoxFuture<'_, Result<Page>>> = worker.queues.iter().map(|queue| first(queue)).collect();
        let mut pages = stream::iter(first).buffered(CALLS).zip(stream::iter(&worker.queues));
        while let Some((page, queue)) = pages.next().await {
            let mut page = page?;
            loop {
                left = left.saturating_sub(page.jobs.len());
                let its = |job: &JobRecord| job.running.as_ref().is_some_and(|running| running.worker == worker.id);
                held.jobs.extend(page.jobs.into_iter().filter(its));
                match page.next {
                    Some(next) if left > 0 => page = self.list(queue, JobState::Active, next, MAX_ITEMS).await?,
                    next => {
                        held.is_whole &= next.is_none();
                        break;
                    }
                }
            }
        }
        held.jobs.sort_by_key(|job| job.running.as_ref().map(|running| running.since));
        held.is_whole &= held.jobs.len() <= most;
        held.jobs.truncate(most);
        let calls: Vec<BoxFuture<'_, Result<Option<Progress>>>> = held.jobs.iter().map(|job| self.progress(&job.address).boxed()).collect();
        let reported: Vec<Option<Progress>> = stream::iter(calls).buffered(CALLS).try_collect().await?;
        for (job, progress) in held.jobs.iter_mut().zip(reported) {
            job.progress = progress;
        }
        Ok(held)
    }
}
