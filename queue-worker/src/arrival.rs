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

use crate::{engine::Shared, error::WorkerError, patience::Patience, time::now, tuning::LONGEST_PAUSE};

/// Waits until the broker is in reach and can be relied on.
///
/// # Errors
/// What does not pass by itself, at once: credentials, settings that lose jobs, a newer schema.
pub(crate) async fn reach(shared: &Arc<Shared>) -> Result<(), WorkerError> {
    let (mut tell, told) = oneshot::channel();
    let waiting = shared.clone();
    shared.broker.spawn(Box::pin(async move {
        tokio::select! {
            // Whoever waited may have been stopped just now.
            reached = try_until_reached(&waiting) => drop(tell.send(reached)),
            () = tell.closed() => {}
        }
    }));
    let ended = |_| WorkerError::Died("its broker's I/O thread has ended".to_owned());
    Ok(told.await.map_err(ended)??)
}

/// Declares the limits of this worker's code and the rules of its groups, before it claims anything. It waits for a broker that has gone away again.
///
/// # Errors
/// What does not pass by itself: a limit too many, missing rights.
pub(crate) async fn declare_limits(shared: &Arc<Shared>) -> Result<(), WorkerError> {
    if shared.limits.is_empty() && shared.groups.is_empty() {
        return Ok(());
    }
    let (mut tell, told) = oneshot::channel();
    let declaring = shared.clone();
    shared.broker.spawn(Box::pin(async move {
        tokio::select! {
            declared = try_to_declare(&declaring) => drop(tell.send(declared)),
            () = tell.closed() => {}
        }
    }));
    let ended = |_| WorkerError::Died("its broker's I/O thread has ended".to_owned());
    Ok(told.await.map_err(ended)??)
}

async fn try_to_declare(shared: &Shared) -> queue_core::Result<()> {
    let mut patience = Patience::new(LONGEST_PAUSE);
    loop {
        match declare_once(shared).await {
            Err(error) if error.is_transient() => {
                tracing::debug!(%error, "cannot declare limits, groups and subscriptions yet, retrying");
                patience.failed();
                patience.pause().await;
            }
            declared => return declared,
        }
    }
}

async fn declare_once(shared: &Shared) -> queue_core::Result<()> {
    let release = shared.info.release();
    for (queue, limits) in &shared.limits {
        declare(&shared.broker, queue, &release, limits).await?;
    }
    for (queue, rule) in &shared.groups {
        declare_groups(&shared.broker, queue, &release, rule).await?;
    }
    for subscription in &shared.subscriptions {
        let (topic, begin) = (&*subscription.topic, subscription.begin.stored());
        match shared.broker.subscribe(subscription).await {
            Ok(false) => {}
            Ok(true) => tracing::info!(topic, subscription = &*subscription.name, begin, "subscription created"),
            // What it has taken is worked off, which makes room. The declarer tries again.
            Err(error @ Error::BrokerFull { .. }) => {
                tracing::warn!(topic, subscription = &*subscription.name, %error, "cannot create the subscription: the broker is full; retrying");
            }
            Err(error) => return Err(error),
        }
    }
    Ok(())
}

/// Logs which failures the broker's jobs survive.
pub(crate) async fn tell_durability(broker: &DynBroker) {
    let asking = broker.clone();
    let (tell, told) = oneshot::channel();
    broker.spawn(Box::pin(async move { drop(tell.send(asking.durability().await)) }));
    match told.await {
        Ok(Ok(Durability::Volatile)) => {
            tracing::warn!(broker = broker.info().location, durability = %Durability::Volatile, "{}", Durability::Volatile.meaning())
        }
        Ok(Ok(durability)) => tracing::info!(broker = broker.info().location, %durability, "{}", durability.meaning()),
        // The broker may be unavailable again, which the other duties report.
        Ok(Err(error)) => tracing::debug!(broker = broker.info().location, %error, "cannot read the durability of the broker"),
        Err(_) => {}
    }
}

async fn try_until_reached(shared: &Shared) -> queue_core::Result<()> {
    let mut patience = Patience::new(LONGEST_PAUSE);
    let mut waiting = None;
    loop {
        let sent = now();
        match shared.broker.check().await {
            Ok(()) => {
                drop(waiting.take());
                shared.outage.answered();
                return Ok(());
            }
            Err(error) if error.is_transient() => {
                waiting.get_or_insert_with(|| shared.outage.met(sent, &error));
                shared.outage.look(now());
                patience.failed();
                patience.pause().await;
            }
            Err(error) => return Err(error),
        }
    }
}
