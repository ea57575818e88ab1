//! A queue that no worker has ever served: mostly a slip in its name, with jobs that would wait
//! forever.

use std::time::Duration;

use super::producer::Route;
use crate::{
    broker::{DynBroker, Register},
    error::{Error, Result},
    text::nearest,
};

/// A new program often enqueues its first job a moment before its first worker starts.
const GRACE: Duration = Duration::from_secs(3);

/// Logs a warning, once for each client and queue, if no worker registers soon. It searches for a
/// similar name in parallel to the enqueue.
pub(super) fn warn(route: &Route) {
    if route.set_warned() {
        return;
    }
    let (broker, queue, process) = (route.broker.clone(), route.queue.clone(), route.process);
    route.broker.spawn(Box::pin(async move {
        tokio::time::sleep(GRACE).await;
        // Every producer may register. The second name enqueues nothing, and is forgotten after
        // some time.
        if broker.register(&Register::producer(queue.clone(), process)).await.is_ok_and(|registered| registered.served) {
            return;
        }
        let nearest = nearest_to(&broker, &queue).await;
        let hint = nearest.map(|name| format!("; did you mean `{name}`?")).unwrap_or_default();
        tracing::warn!(%queue, "no worker has ever served this queue: its jobs wait until one does{hint}");
    }));
}

/// The error for a client that enqueues to served queues only.
pub(super) async fn error(route: &Route) -> Error {
    Error::Unserved { queue: route.queue.to_string(), nearest: nearest_to(&route.broker, &route.queue).await }
}

/// Whether a queue is on no list. It is called before a registration, which would list the queue.
pub(super) async fn is_unknown(route: &Route) -> Result<bool> {
    match route.broker.queues().await {
        Ok(queues) => Ok(!queues.iter().any(|queue| **queue == *route.queue)),
        // A user who may not read the list registers.
        Err(Error::AccessDenied { .. }) => Ok(false),
        Err(error) => Err(error),
    }
}

async fn nearest_to(broker: &DynBroker, queue: &str) -> Option<String> {
    let queues = broker.queues().await.ok()?;
    nearest(queue, queues.iter().map(String::as_str).filter(|other| *other != queue)).map(str::to_owned)
}
