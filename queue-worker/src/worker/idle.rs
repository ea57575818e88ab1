//! A worker that ends when no work is left.

use std::time::Duration;

use queue_core::{
    Error, JobState,
    broker::subscription_at,
    inspect::{Counter, Inspector},
};

use super::Worker;
use crate::{error::WorkerError, shutdown::Stopped};

/// The first pause between two checks; it doubles up to [`LONGEST`].
const FIRST: Duration = Duration::from_millis(1);
const LONGEST: Duration = Duration::from_millis(50);

impl Worker {
    /// Runs jobs until no job of its queues is ready or running. It also runs the jobs that these
    /// enqueue. Use it for tests, and for programs that only process the stored jobs. It does not
    /// wait for jobs with a due time (delayed, snoozed, or waiting for a retry). It leaves parked
    /// jobs and those of paused queues.
    ///
    /// ```standalone_crate
    /// # use queue_core::prelude::*;
    /// # use queue_worker::Worker;
    /// # #[task] async fn greet(name: String) {}
    /// # async fn test() -> Result<(), Box<dyn std::error::Error>> {
    /// let queue = Client::connect("sqlite://:memory:").await?;
    /// greet::job("Ada".to_owned()).enqueue(&queue).await?;
    /// let stopped = Worker::new(queue).run_until_idle().await?;
    /// assert_eq!(stopped.finished, 1);
    /// # Ok(()) }
    /// # queue_worker::block_on(test()).unwrap();
    /// ```
    ///
    /// # Errors
    /// Those of [`run`](Self::run).
    pub async fn run_until_idle(self) -> Result<Stopped, WorkerError> {
        let inspector = self.client.inspector();
        let queues: Vec<String> = self.served().into_iter().map(|queue| queue.name).collect();
        self.run(idle(inspector, queues)).await
    }
}

/// Ends when two checks of all queues find no work and no enqueue in between: a job may enqueue its
/// successor into a queue that was already checked.
async fn idle(inspector: Inspector, queues: Vec<String>) {
    let mut pause = FIRST;
    let mut before = None;
    loop {
        // If the broker does not answer, the check does not count.
        let found = enqueued_if_idle(&inspector, &queues).await.ok().flatten();
        if found.is_some() && found == before {
            return;
        }
        pause = if found.is_some() { FIRST } else { (pause * 2).min(LONGEST) };
        before = found;
        tokio::time::sleep(pause).await;
    }
}

/// Whether this is the queue of a subscription that has events to read.
async fn has_unread_events(inspector: &Inspector, queue: &str) -> Result<bool, Error> {
    let Some((name, topic)) = subscription_at(queue) else { return Ok(false) };
    let topic = inspector.topic(topic).await?;
    let subscription = topic.iter().flat_map(|topic| &topic.subscriptions).find(|subscription| subscription.name == name);
    Ok(subscription.is_some_and(|subscription| !subscription.paused && subscription.behind != Some(0)))
}

/// The number of jobs that were ever enqueued, if none is ready or running.
async fn enqueued_if_idle(inspector: &Inspector, queues: &[String]) -> Result<Option<u64>, Error> {
    let mut enqueued = 0;
    for queue in queues {
        let stats = match inspector.stats(queue).await {
            // The worker has not yet registered with this queue.
            Err(Error::NoSuchQueue { .. }) => continue,
            stats => stats?,
        };
        if stats.count(JobState::Active) > 0 || (stats.count(JobState::Ready) > 0 && !stats.paused) {
            return Ok(None);
        }
        if has_unread_events(inspector, queue).await? {
            return Ok(None);
        }
        enqueued += stats.total(Counter::Enqueued) + stats.total(Counter::Requeued);
    }
    Ok(Some(enqueued))
}
