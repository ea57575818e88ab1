//! Names of queues in use, to detect misspelled names.

use std::{
    collections::HashSet,
    sync::{Mutex, PoisonError},
};

use super::Inspector;
use crate::{
    address::subscription_at,
    error::{Error, Result},
    text::nearest,
};

/// The queues that a client has seen on the list of all queues. A queue that an operator has
/// removed since then looks empty to this client.
#[derive(Debug, Default)]
pub(crate) struct SeenQueues(Mutex<HashSet<String>>);

impl SeenQueues {
    fn has(&self, queue: &str) -> bool {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).contains(queue)
    }

    fn add(&self, queues: Vec<String>) {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).extend(queues);
    }
}

impl Inspector {
    /// The data that was found for a queue. If it is empty, the queue may not exist.
    pub(super) async fn found_of<T>(&self, queue: &str, found: T, is_nothing: bool) -> Result<T> {
        if !is_nothing || self.seen.has(queue) {
            return Ok(found);
        }
        // A user who cannot read the list cannot check the name.
        let Ok(queues) = self.queues().await else { return Ok(found) };
        if queues.iter().any(|known| known == queue) {
            self.seen.add(queues);
            return Ok(found);
        }
        // A subscription that no worker has served is on no list of queues.
        if let Some((name, topic)) = subscription_at(queue) {
            let topic = topic.to_owned();
            let asked = self.ask(self.until(), move |broker| {
                let topic = topic.clone();
                async move { broker.topic(&topic).await }
            });
            let topic = asked.await?;
            if topic.is_some_and(|topic| topic.subscriptions.iter().any(|subscription| subscription.name == name)) {
                return Ok(found);
            }
        }
        let nearest = nearest(queue, queues.iter().map(String::as_str)).map(str::to_owned);
        Err(Error::NoSuchQueue { queue: queue.to_owned(), nearest })
    }
}
