//! How calls to a broker are awaited, in any runtime or in none.

use std::{future::Future, time::Duration};

use tokio::{sync::oneshot, time::Instant};

use super::{DynBroker, LONGEST};
use crate::error::{Error, Result};

/// The time after a duration, at most a hundred years from now.
pub(crate) fn after(time: Duration) -> Instant {
    Instant::now() + time.min(LONGEST)
}

/// Runs `work` on the broker's I/O thread, called from any runtime or from none. Dropping the
/// caller does not end it.
pub(crate) async fn on_broker<T: Send + 'static>(broker: &DynBroker, work: impl Future<Output = T> + Send + 'static) -> Result<T> {
    let (sender, receiver) = oneshot::channel();
    broker.spawn(Box::pin(async move {
        // A caller that was dropped has no use for the result.
        let _ = sender.send(work.await);
    }));
    let ended = || Error::unavailable(broker.info().location, "its I/O thread has ended");
    receiver.await.map_err(|_| ended())
}

/// The same with a deadline of the caller.
///
/// # Errors
/// [`Error::Ambiguous`] when the time is up.
pub(crate) async fn on_broker_until<T: Send + 'static>(
    broker: &DynBroker,
    until: Instant,
    work: impl Future<Output = Result<T>> + Send + 'static,
) -> Result<T> {
    let begun = Instant::now();
    let timed = async move { tokio::time::timeout_at(until, work).await };
    let late = |_| Error::ambiguous(broker.info().location, format!("waited {:.1?}", begun.elapsed()));
    on_broker(broker, timed).await?.map_err(late)?
}
