//! Pauses of queues, groups and tasks.

use super::Inspector;
use crate::{
    address::check_queue,
    broker::{GroupName, Pause, PauseOf, Pauses, Pausing, QueueStats, SetPause, StoredPause},
    error::Result,
};

impl Inspector {
    /// Pauses a queue: no worker claims from it. Running jobs continue, and enqueues are accepted.
    /// The reason of [`because`](Self::because) is shown until the end of the pause.
    /// [`pause_as`](Self::pause_as) has more options.
    ///
    /// # Errors
    /// Those of the broker.
    pub async fn pause(&self, queue: &str) -> Result<()> {
        self.pause_as(queue, PauseOf::Queue, self.pausing()).await
    }

    /// Lets workers claim from a queue again.
    ///
    /// # Errors
    /// Those of the broker.
    pub async fn resume(&self, queue: &str) -> Result<()> {
        self.resume_of(queue, PauseOf::Queue).await
    }

    /// Pauses a group: its jobs wait, and running jobs continue. The reason of
    /// [`because`](Self::because) is shown until the end of the pause.
    ///
    /// # Errors
    /// Those of [`pause_as`](Self::pause_as).
    pub async fn pause_group(&self, queue: &str, group: &GroupName) -> Result<()> {
        self.pause_as(queue, PauseOf::Group(group.clone()), self.pausing()).await
    }

    /// Lets the jobs of a group be claimed again.
    ///
    /// # Errors
    /// Those of the broker.
    pub async fn resume_group(&self, queue: &str, group: &GroupName) -> Result<()> {
        self.resume_of(queue, PauseOf::Group(group.clone())).await
    }

    /// Pauses a queue, a group or a task, with a reason, an author and an end (default: until
    /// [`resume_of`](Self::resume_of)). The broker stores them. When the pause has expired by the
    /// broker's clock, the next claim of a worker ends it; idle workers claim in time. A repeated
    /// pause replaces the end and the reason.
    ///
    /// ```
    /// use std::time::Duration;
    /// use queue_core::{inspect::{PauseOf, Pausing}, prelude::*};
    ///
    /// # async fn example() -> queue_core::Result<()> {
    /// let client = Client::connect("sqlite://:memory:").await?;
    /// let pausing = Pausing::new().because("the database moves").by("ada").lasting(Duration::from_secs(1800));
    /// client.inspector().pause_as("mail", PauseOf::Queue, pausing).await?;
    ///
    /// let pause = client.inspector().stats("mail").await?.pause.expect("it is paused");
    /// assert_eq!(pause.reason.as_deref(), Some("the database moves"));
    /// assert!(pause.until > pause.since);
    /// # Ok(()) }
    /// # tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap().block_on(example()).unwrap();
    /// ```
    ///
    /// # Errors
    /// [`Error::Invalid`](crate::Error::Invalid) for a reason over
    /// [`PAUSE_REASON_MAX`](crate::broker::PAUSE_REASON_MAX) bytes, an end that is not in the
    /// future by the broker's clock, and if the queue has the largest number of group rules or
    /// paused tasks; [`Error::FeatureUnknown`](crate::Error::FeatureUnknown) for an end, or a task,
    /// while a worker of an older release serves the queue; those of the broker.
    pub async fn pause_as(&self, queue: &str, of: PauseOf, pausing: Pausing) -> Result<()> {
        let request = SetPause::pause(queue, of, pausing);
        request.check()?;
        self.run(|broker| async move { broker.set_pause(&request).await }).await
    }

    /// Resumes a queue, a group or a task. The data of its pause are removed.
    ///
    /// # Errors
    /// Those of the broker.
    pub async fn resume_of(&self, queue: &str, of: PauseOf) -> Result<()> {
        let request = SetPause::resume(queue, of);
        request.check()?;
        self.run(|broker| async move { broker.set_pause(&request).await }).await
    }

    /// The length, counters and pause of a queue. A pause that has ended by the broker's clock is
    /// not returned.
    ///
    /// # Errors
    /// [`Error::NoSuchQueue`](crate::Error::NoSuchQueue); those of the broker.
    pub async fn stats(&self, queue: &str) -> Result<QueueStats> {
        let stats = self.stats_of(queue).await?;
        let is_nothing = stats.is_nothing();
        self.found_of(queue, stats, is_nothing).await
    }

    /// The same of a queue that may have nothing.
    pub(super) async fn stats_of(&self, queue: &str) -> Result<QueueStats> {
        check_queue(queue)?;
        let of = queue.to_owned();
        let mut stats = self
            .ask(self.until(), move |broker| {
                let queue = of.clone();
                async move { broker.stats(&queue).await }
            })
            .await?;
        if stats.paused {
            let pauses = self.pauses_of(queue).await?;
            stats.pause = pause_of_queue(pauses);
            stats.paused = stats.pause.is_some();
        }
        Ok(stats)
    }

    /// The pauses of a queue: that of the queue itself first, then those of its tasks by name. The
    /// pauses of groups are in [their rules](crate::inspect::StoredGroup::pause). Pauses that have
    /// expired by the broker's clock are left out.
    ///
    /// ```
    /// use queue_core::{inspect::{PauseOf, Pausing}, prelude::*};
    ///
    /// # async fn example() -> queue_core::Result<()> {
    /// let client = Client::connect("sqlite://:memory:").await?;
    /// client.inspector().pause_as("mail", PauseOf::Task("send".into()), Pausing::new().because("the server is down")).await?;
    /// let pauses = client.inspector().pauses("mail").await?;
    /// assert_eq!((pauses[0].of.clone(), pauses[0].parked), (PauseOf::Task("send".into()), 0));
    /// # Ok(()) }
    /// # tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap().block_on(example()).unwrap();
    /// ```
    ///
    /// # Errors
    /// [`Error::Invalid`](crate::Error::Invalid) for a queue outside the grammar; those of the
    /// broker.
    pub async fn pauses(&self, queue: &str) -> Result<Vec<StoredPause>> {
        check_queue(queue)?;
        Ok(self.pauses_of(queue).await?.unexpired().collect())
    }

    pub(super) async fn pauses_of(&self, queue: &str) -> Result<Pauses> {
        let queue = queue.to_owned();
        self.ask(self.until(), move |broker| {
            let queue = queue.clone();
            async move { broker.pauses(&queue).await }
        })
        .await
    }

    fn pausing(&self) -> Pausing {
        Pausing::new().because(self.reason.as_deref().unwrap_or_default())
    }
}

/// The pause of the queue itself, if it has not ended.
pub(super) fn pause_of_queue(pauses: Pauses) -> Option<Pause> {
    pauses.unexpired().find(|stored| stored.of == PauseOf::Queue).map(|stored| stored.pause)
}
