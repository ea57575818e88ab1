//! The registered workers and their reports.

use tokio::time::Instant;

use super::Inspector;
use crate::{
    address::check_queue,
    broker::{
        DynBroker, WorkerRecord,
        history::{FailurePattern, History, HistorySpan},
    },
    error::Result,
};

impl Inspector {
    /// The workers that are registered with any queue: one record for each worker, with all of its
    /// queues, sorted by host and process number. A worker that has stopped stays on the list until
    /// its lease has expired and another worker of the queue has reclaimed it.
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

    /// The workers that are registered with one queue. Their records name only this queue.
    ///
    /// # Errors
    /// [`Error::Invalid`](crate::Error::Invalid) for a name outside the grammar.
    pub async fn workers_of(&self, queue: &str) -> Result<Vec<WorkerRecord>> {
        check_queue(queue)?;
        Ok(WorkerRecord::merged(self.workers_until(self.until(), queue.to_owned()).await?))
    }

    async fn workers_until(&self, until: Instant, queue: String) -> Result<Vec<WorkerRecord>> {
        let ask = move |broker: DynBroker| {
            let queue = queue.clone();
            async move { broker.workers(&queue).await }
        };
        self.ask(until, ask).await
    }

    /// The history of a queue up to now: how many jobs started, were done, failed and became dead
    /// letters, how long they waited and ran, and the length of the queue. There is a row for each
    /// minute of the last two hours ([`HistorySpan::minutes`], [`HOUR`](HistorySpan::HOUR)), or for
    /// each hour of the last two weeks ([`HistorySpan::hours`], [`DAY`](HistorySpan::DAY),
    /// [`TWO_WEEKS`](HistorySpan::TWO_WEEKS)), of all tasks together and of each.
    ///
    /// Workers report about every ten seconds, so the most recent events are missing. The last
    /// interval of a worker that was killed is never reported.
    ///
    /// ```no_run
    /// # use queue_core::{Client, inspect::HistorySpan};
    /// # async fn example(client: Client) -> queue_core::Result<()> {
    /// let history = client.inspector().history("mail", HistorySpan::HOUR).await?;
    /// for row in &history.rows {
    ///     println!("{:?}: {} done, {} failed, p95 {:?}", row.at, row.counts.done, row.counts.failed, row.run.p95());
    /// }
    /// for task in history.tasks.keys() {
    ///     println!("{task}: {:?}", history.total_of(task).and_then(|hour| hour.wait.p99()));
    /// }
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Errors
    /// [`Error::Invalid`](crate::Error::Invalid) for a name outside the grammar;
    /// [`Error::NoSuchQueue`](crate::Error::NoSuchQueue).
    pub async fn history(&self, queue: &str, span: HistorySpan) -> Result<History> {
        check_queue(queue)?;
        let of = queue.to_owned();
        let ask = move |broker: DynBroker| {
            let queue = of.clone();
            async move { broker.history(&queue, span).await }
        };
        let history = self.ask(self.until(), ask).await?;
        let is_nothing = history.tasks.is_empty() && history.releases.is_empty() && history.rows.iter().all(|row| row.ready.is_none());
        self.found_of(queue, history, is_nothing).await
    }
    /// The failures of a queue: failures whose texts differ only in numbers, ids and quoted values
    /// are one [pattern](FailurePattern), with a [`Fingerprint`](crate::inspect::Fingerprint). The
    /// latest pattern comes first. A queue keeps 200 patterns; patterns that were not seen for two
    /// weeks are not returned.
    ///
    /// Workers report about every ten seconds, and when they stop.
    ///
    /// ```no_run
    /// # use queue_core::{Client, JobState, inspect::{Change, Filter}};
    /// # async fn example(client: Client) -> queue_core::Result<()> {
    /// let inspector = client.inspector();
    /// for kind in inspector.failures("mail").await? {
    ///     println!("{} times: {}", kind.count, kind.pattern);
    ///     // All dead jobs whose last failure was one of them run again.
    ///     let alike: Filter = format!("failure={}", kind.fingerprint).parse()?;
    ///     inspector.change_matching("mail", Change::Requeue, JobState::Dead, &alike).await?;
    /// }
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Errors
    /// [`Error::Invalid`](crate::Error::Invalid) for a name outside the grammar;
    /// [`Error::NoSuchQueue`](crate::Error::NoSuchQueue).
    pub async fn failures(&self, queue: &str) -> Result<Vec<FailurePattern>> {
        check_queue(queue)?;
        let of = queue.to_owned();
        let ask = move |broker: DynBroker| {
            let queue = of.clone();
            async move { broker.failures(&queue).await }
        };
        let kinds = self.ask(self.until(), ask).await?;
        let is_nothing = kinds.is_empty();
        self.found_of(queue, kinds, is_nothing).await
    }
}
