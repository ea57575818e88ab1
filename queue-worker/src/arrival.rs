//! The first contact with the broker. A worker whose broker is not there yet waits for it, as it would in the middle of its
//! work: whoever starts both needs no order, and an outage ends no process that starts during it.

use queue_core::broker::{Durability, DynBroker};
use tokio::sync::oneshot;

use crate::{
    error::WorkerError,
    patience::{LONGEST_PAUSE, Patience},
};

/// Waits until the broker is in reach and can be relied on.
///
/// # Errors
/// What does not pass by itself, at once: credentials, settings that lose jobs, a newer schema.
pub(crate) async fn reach(broker: &DynBroker) -> Result<(), WorkerError> {
    let (mut tell, told) = oneshot::channel();
    let waiting = broker.clone();
    broker.spawn(Box::pin(async move {
        tokio::select! {
            // Whoever waited may have been stopped just now.
            reached = try_until_reached(&waiting) => drop(tell.send(reached)),
            () = tell.closed() => {}
        }
    }));
    let ended = |_| WorkerError::Died("its broker's I/O thread has ended".to_owned());
    Ok(told.await.map_err(ended)??)
}

/// Says what the broker keeps, for whoever relies on it.
pub(crate) async fn tell_durability(broker: &DynBroker) {
    let asking = broker.clone();
    let (tell, told) = oneshot::channel();
    broker.spawn(Box::pin(async move { drop(tell.send(asking.durability().await)) }));
    match told.await {
        Ok(Ok(Durability::Volatile)) => tracing::warn!(durability = %Durability::Volatile, "{}", Durability::Volatile.meaning()),
        Ok(Ok(durability)) => tracing::info!(%durability, "{}", durability.meaning()),
        // It may well have gone away again; that is told by those who work with it.
        Ok(Err(error)) => tracing::debug!("cannot ask what the broker keeps: {error}"),
        Err(_) => {}
    }
}

async fn try_until_reached(broker: &DynBroker) -> queue_core::Result<()> {
    let mut patience = Patience::new(LONGEST_PAUSE);
    loop {
        match broker.check().await {
            Ok(()) if patience.tries() == 0 => return Ok(()),
            Ok(()) => {
                tracing::info!(tries = patience.tries(), "the broker is there now");
                return Ok(());
            }
            Err(error) if error.is_transient() => {
                patience.failed();
                if patience.is_news() {
                    tracing::warn!(tries = patience.tries(), "cannot start yet, trying again: {error}");
                }
                patience.pause().await;
            }
            Err(error) => return Err(error),
        }
    }
}
