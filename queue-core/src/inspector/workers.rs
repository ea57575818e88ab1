//! Which workers there are.

use tokio::time::Instant;

use super::Inspector;
use crate::{
    address::check_name,
    broker::{DynBroker, WorkerRecord},
    error::Result,
};

impl Inspector {
    /// The workers that are registered with any queue: one record for each worker, with all of its queues, sorted by host and process
    /// number. A worker that has stopped stays on the list until its lease is over and another worker of the queue has noticed.
    ///
    /// # Errors
    /// Those of the broker.
    pub async fn workers(&self) -> Result<Vec<WorkerRecord>> {
        let (until, mut records) = (self.until(), Vec::new());
        for queue in self.ask(until, |broker| async move { broker.queues().await }).await? {
            records.extend(self.workers_until(until, queue).await?);
        }
        Ok(WorkerRecord::merged(records))
    }

    /// The workers that are registered with one queue. Their records name this queue alone.
    ///
    /// # Errors
    /// [`Error::Invalid`](crate::Error::Invalid) for a name outside the grammar.
    pub async fn workers_of(&self, queue: &str) -> Result<Vec<WorkerRecord>> {
        check_name("queue", queue)?;
        Ok(WorkerRecord::merged(self.workers_until(self.until(), queue.to_owned()).await?))
    }

    async fn workers_until(&self, until: Instant, queue: String) -> Result<Vec<WorkerRecord>> {
        let ask = move |broker: DynBroker| {
            let queue = queue.clone();
            async move { broker.workers(&queue).await }
        };
        self.ask(until, ask).await
    }
}
