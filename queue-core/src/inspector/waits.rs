//! Waits for the end of a job: notified by the broker, and by polls at intervals.

use std::time::Duration;

use tokio::time::Instant;

use crate::{
    address::JobAddress,
    broker::{DynBroker, LONGEST, StoredJob, WATCHED, after, on_broker, on_broker_until},
    error::{Error, Result},
};

/// How long the last read may take when the time is up.
const LAST_READ: Duration = Duration::from_millis(40);

/// The first pause between two polls; later pauses grow. An announcement may be lost.
const FIRST_NET: Duration = Duration::from_millis(20);

/// The longest pause between two polls. The mark that a caller waits has to outlive it.
const LAST_NET: Duration = Duration::from_secs(5);
const _: () = assert!(LAST_NET.as_millis() * 2 < WATCHED.as_millis());

/// Waits until a job has ended, at most for `timeout`, and returns its state at the last poll;
/// `None` if the broker does not have it. A poll takes at most as long as `deadline`.
///
/// # Errors
/// Those of the broker. A transient error is returned only if no poll was answered before the
/// timeout.
pub(crate) async fn until_ended(broker: &DynBroker, job: &JobAddress, deadline: Duration, timeout: Duration) -> Result<Option<StoredJob>> {
    let end = Instant::now() + timeout.min(LONGEST);
    // It subscribes before the first read, so an ending in between is announced.
    let mut endings = broker.ending_hints(&job.queue, &job.id);
    let (mut net, mut seen) = (FIRST_NET, None);
    loop {
        let last_read = end.max(Instant::now() + LAST_READ);
        match (read_job(broker, job, last_read.min(after(deadline))).await, Instant::now() < end) {
            (Ok(Some(record)), _) if !record.state.is_final() => seen = Some(record),
            (Ok(record), _) => return Ok(record),
            // During a failover, or after a lost answer, a poll may be repeated.
            (Err(error), true) if error.is_transient() => {}
            // It had not ended at the previous poll.
            (Err(error), false) if error.is_transient() && seen.is_some() => {}
            (Err(error), _) => return Err(error),
        }
        let left = end.saturating_duration_since(Instant::now());
        if left.is_zero() && seen.is_some() {
            return Ok(seen);
        }
        let sleep = net.min(left);
        endings = on_broker(broker, async move {
            let _ = tokio::time::timeout(sleep, endings.next()).await;
            endings
        })
        .await?;
        net = (net * 2).min(LAST_NET);
    }
}

/// Returns the job, and marks that a caller waits for its end. If the broker is full, or this user
/// may not write, the mark is not stored, and the job is still returned.
async fn read_job(broker: &DynBroker, job: &JobAddress, until: Instant) -> Result<Option<StoredJob>> {
    let (own, job) = (broker.clone(), job.clone());
    on_broker_until(broker, until, async move {
        match own.watch(&job.queue, &job.id).await {
            Err(Error::BrokerFull { .. } | Error::AccessDenied { .. }) => own.show(&job.queue, &job.id).await,
            watched => watched,
        }
    })
    .await
    .map_err(Error::of_question)
}
