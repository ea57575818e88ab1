//! The first contact with the broker. A worker waits for an unavailable broker at its start, as it
//! does later. Broker and worker can therefore start in any order, and an outage does not end a
//! process that starts during it.

use std::sync::Arc;

use queue_core::{
    __private::{declare_groups, declare_limits as declare},
    Error,
    broker::{Durability, DynBroker},
};
use tokio::sync::oneshot;

use crate::{connection::Connection, declarations::Declarations, error::WorkerError, patience::Patience, time::now, tuning::LONGEST_PAUSE};

/// Waits until the broker is in reach and can be relied on.
///
/// # Errors
/// Errors that waiting does not resolve, at once: credentials, settings that lose jobs, a newer
/// schema.
pub(crate) async fn reach(connection: &Arc<Connection>) -> Result<(), WorkerError> {
    let waiting = connection.clone();
    on_broker(&connection.broker, async move { try_until_reached(&waiting).await }).await?.map_err(WorkerError::Queue)
}

/// Declares the limits of this worker's code and the rules of its groups, before the first claim.
/// It waits if the broker becomes unavailable again.
///
/// # Errors
/// Errors that waiting does not resolve: too many limits, missing rights.
pub(crate) async fn declare_limits(broker: &DynBroker, release: &str, declarations: &Arc<Declarations>) -> Result<(), WorkerError> {
    if declarations.limits.is_empty() && declarations.groups.is_empty() {
        return Ok(());
    }
    let (to, release, declarations) = (broker.clone(), release.to_owned(), declarations.clone());
    on_broker(broker, async move { try_to_declare(&to, &release, &declarations).await }).await?.map_err(WorkerError::Queue)
}

/// Runs it on the broker's I/O thread, so that no clock of the caller's runtime is used. It is
/// dropped with the returned future.
pub(crate) async fn on_broker<T: Send + 'static>(
    broker: &DynBroker,
    work: impl Future<Output = T> + Send + 'static,
) -> Result<T, WorkerError> {
    let (mut send, output) = oneshot::channel();
    broker.spawn(Box::pin(async move {
        tokio::select! {
            // The caller may have been stopped just now.
            output = work => drop(send.send(output)),
            () = send.closed() => {}
        }
    }));
    output.await.map_err(|_| WorkerError::Died("its broker's I/O thread has ended".to_owned()))
}

async fn try_to_declare(broker: &DynBroker, release: &str, declarations: &Declarations) -> queue_core::Result<()> {
    let mut patience = Patience::new(LONGEST_PAUSE);
    loop {
        match declare_once(broker, release, declarations).await {
            Err(error) if error.is_transient() => {
                tracing::debug!(%error, "cannot declare limits, groups and subscriptions yet, retrying");
                patience.failed();
                patience.pause().await;
            }
            declared => return declared,
        }
    }
}

async fn declare_once(broker: &DynBroker, release: &str, declarations: &Declarations) -> queue_core::Result<()> {
    for (queue, limits) in &declarations.limits {
        declare(broker, queue, release, limits).await?;
    }
    for (queue, rule) in &declarations.groups {
        declare_groups(broker, queue, release, rule).await?;
    }
    for subscription in &declarations.subscriptions {
        let (topic, begin) = (&*subscription.topic, subscription.begin.stored());
        match broker.subscribe(subscription).await {
            Ok(false) => {}
            Ok(true) => tracing::info!(topic, subscription = &*subscription.name, begin, "subscription created"),
            // The worker runs the stored jobs, which makes room. The declarer tries again.
            Err(error @ Error::BrokerFull { .. }) => {
                tracing::warn!(topic, subscription = &*subscription.name, %error, "cannot create the subscription: the broker is full; retrying");
            }
            Err(error) => return Err(error),
        }
    }
    Ok(())
}

/// Logs the failures that the broker's jobs survive.
pub(crate) async fn log_durability(broker: &DynBroker) {
    let asked = broker.clone();
    match on_broker(broker, async move { asked.durability().await }).await {
        Ok(Ok(Durability::Volatile)) => {
            tracing::warn!(broker = broker.info().location, durability = %Durability::Volatile, "{}", Durability::Volatile.meaning())
        }
        Ok(Ok(durability)) => tracing::info!(broker = broker.info().location, %durability, "{}", durability.meaning()),
        // The broker may be unavailable again. The other duties report that.
        Ok(Err(error)) => tracing::debug!(broker = broker.info().location, %error, "cannot read the durability of the broker"),
        Err(_) => {}
    }
}

async fn try_until_reached(connection: &Connection) -> queue_core::Result<()> {
    let mut patience = Patience::new(LONGEST_PAUSE);
    let mut waiting = None;
    loop {
        let sent = now();
        match connection.broker.check().await {
            Ok(()) => {
                drop(waiting.take());
                connection.outage.answered();
                return Ok(());
            }
            Err(error) if error.is_transient() => {
                waiting.get_or_insert_with(|| connection.outage.begin_waiting(sent, &error));
                connection.outage.log_if_lasting(now());
                patience.failed();
                patience.pause().await;
            }
            Err(error) => return Err(error),
        }
    }
}
