//! Aging: the interval at which waiting jobs gain a priority, as operators set it and as code
//! declares it.

use std::{collections::BTreeSet, sync::Arc, time::Duration};

use super::Inspector;
use crate::{
    address::check_queue,
    broker::{Aging, AgingRecord, AgingSet, DynBroker, SetAging},
    error::{Error, Result},
};

/// Tries of a change while others change the same.
const TRIES: u32 = 50;

impl Inspector {
    /// Sets the aging interval of a queue: the time after which a waiting job gains one priority.
    /// It overrides the declaration in code, also after deployments, and applies to jobs that
    /// become ready from now on. Jobs that already wait keep the priority that they have gained;
    /// those that age already use the new interval after their next gain. Returns the interval in
    /// effect.
    ///
    /// ```
    /// use std::time::Duration;
    /// use queue_core::{inspect::Aging, prelude::*};
    ///
    /// # async fn example() -> queue_core::Result<()> {
    /// let client = Client::connect("sqlite://:memory:").await?;
    /// let minute = Duration::from_secs(60);
    /// client.inspector().set_aging("mail", Aging::Every(minute)).await?;
    /// assert_eq!(client.inspector().stats("mail").await?.aging, Some(minute));
    /// # Ok(()) }
    /// # tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap().block_on(example()).unwrap();
    /// ```
    ///
    /// # Errors
    /// [`Error::Invalid`] for a name outside the grammar, and for a time below 1 ms or over a year.
    /// [`Error::FeatureUnknown`] while a worker of an older release serves the queue.
    pub async fn set_aging(&self, queue: &str, aging: Aging) -> Result<Option<Duration>> {
        check_queue(queue)?;
        AgingRecord::default().set(aging)?;
        let queue: Arc<str> = queue.into();
        self.run(move |broker| async move { change(&broker, &queue, |record| record.set(aging)).await.map(|(_, every)| every) }).await
    }
}

/// Declares the aging of a release in a queue. Of the releases with a live worker, the one that was
/// first seen last applies, so that a rollback takes effect. Returns the effective interval if it
/// has changed.
///
/// # Errors
/// Those of the broker.
pub async fn declare_aging(broker: &DynBroker, queue: &Arc<str>, release: &str, every: Duration) -> Result<Option<Option<Duration>>> {
    let workers = broker.workers(queue).await?;
    let mut live: BTreeSet<String> =
        workers.into_iter().filter(|worker| !worker.lease_left.is_zero()).map(|worker| worker.release).collect();
    live.insert(release.to_owned());
    let now_ms = broker.clock().now_ms();
    let declared = change(broker, queue, |record| {
        record.declare(release, every, &live, now_ms);
        Ok(())
    });
    let (before, every) = declared.await?;
    Ok((before != every).then_some(every))
}

/// The previous and the new effective interval.
async fn change(
    broker: &DynBroker,
    queue: &Arc<str>,
    change: impl Fn(&mut AgingRecord) -> Result<()>,
) -> Result<(Option<Duration>, Option<Duration>)> {
    let mut stored = Vec::new();
    for _ in 0..TRIES {
        // A value that cannot be read is replaced.
        let mut record = AgingRecord::decode(&stored).unwrap_or_default();
        let before = record.every();
        change(&mut record)?;
        match broker.set_aging(&SetAging::new(queue.clone(), stored, record.encode())).await? {
            AgingSet::Set => return Ok((before, record.every())),
            AgingSet::Stale(other) => stored = other,
        }
    }
    Err(Error::Internal(format!("gave up: the aging of queue `{queue}` keeps changing")))
}
