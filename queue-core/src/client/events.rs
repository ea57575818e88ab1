//! Publishing events: each is a job at the address of its topic, and travels as jobs do.

use std::{fmt, sync::Arc};

use super::{
    Client,
    prepare::{Known, Prepared, prepare},
};
use crate::{
    address::{JobAddress, JobId, check_name, topic_address},
    broker::{MAX_BYTES, MAX_ITEMS, NewJob, Priority},
    draft::{Draft, EnqueueStack, Options},
    error::{Error, Result},
    event::{Event, Publication},
    observe::spans,
};

/// An event that is in the log of its topic.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Published {
    /// The topic.
    pub topic: Arc<str>,
    /// Its id, which its jobs have in every subscription.
    pub id: JobId,
}

/// Some events of a `publish_all` were not published.
#[derive(Debug)]
pub struct PublishAllError {
    /// The published events, in order, from the first on.
    pub published: Vec<Published>,
    /// The error of the first of the others.
    pub error: Error,
}

impl fmt::Display for PublishAllError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} events were published before this error: {}", self.published.len(), self.error)
    }
}

impl std::error::Error for PublishAllError {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        Some(&self.error)
    }
}

impl From<PublishAllError> for Error {
    fn from(all: PublishAllError) -> Self {
        let PublishAllError { published, error } = all;
        if published.is_empty() {
            return error;
        }
        let address = |event: Published| JobAddress { queue: topic_address(&event.topic).into(), id: event.id };
        let given = published.len() + 1;
        Error::PartlyStored { stored: published.into_iter().map(address).collect(), given, cause: Box::new(error) }
    }
}

impl Client {
    /// Appends an event to the log of its topic. After `Ok`, all existing subscriptions get it, and
    /// any later one whose start position is before this event. It is kept for the retention of the
    /// topic, even without subscriptions.
    ///
    /// Events with options are published by [`Publication::publish`].
    ///
    /// # Errors
    /// Those of [`enqueue`](Self::enqueue), except `IdConflict`.
    pub async fn publish(&self, event: impl Event) -> Result<Published> {
        self.publish_event(event.event()).await
    }

    /// Appends events to the logs of their topics, in order and in bounded batches.
    ///
    /// # Errors
    /// [`PublishAllError`], with the events that were published. After a batch that the broker
    /// refused, no further event is taken.
    pub async fn publish_all<E: Event>(
        &self,
        events: impl IntoIterator<Item = E, IntoIter: Send>,
    ) -> Result<Vec<Published>, PublishAllError> {
        let mut events = events.into_iter().map(|event| prepared(event.event(), self.on_enqueue())).peekable();
        let mut published = Vec::new();
        while events.peek().is_some() {
            let (mut batch, mut ids, mut bytes) = (Vec::<NewJob>::new(), Vec::new(), 0);
            let mut refused = None;
            while let Some(event) = events.next_if(|event| {
                let size = event.as_ref().map_or(0, |event| event.job.envelope.len());
                batch.is_empty() || batch.len() < MAX_ITEMS && bytes + size <= MAX_BYTES
            }) {
                match event {
                    Ok(Prepared { address, job, .. }) => {
                        bytes += job.envelope.len();
                        ids.push(address.id);
                        batch.push(job);
                    }
                    Err(error) => {
                        refused = Some(error);
                        break;
                    }
                }
            }
            if !batch.is_empty() {
                match self.sender(&topic_address(E::TOPIC).into()).enqueue_batch(batch).await {
                    Ok(_) => published.extend(ids.into_iter().map(|id| Published { topic: E::TOPIC.into(), id })),
                    Err(failure) => return Err(PublishAllError { published, error: failure.of(0) }),
                }
            }
            if let Some(error) = refused {
                return Err(PublishAllError { published, error });
            }
        }
        Ok(published)
    }

    pub(crate) async fn publish_event(&self, event: Publication) -> Result<Published> {
        let topic: Arc<str> = event.topic.as_str().into();
        let span = spans::enqueue(&event.event, &topic_address(&topic));
        let prepared = span.in_scope(|| prepared(event, self.on_enqueue()));
        let (address, ..) = self.enqueue_prepared(prepared, span).await?;
        Ok(Published { topic, id: address.id })
    }
}

impl Publication {
    /// Appends the event to the log of its topic: see [`Client::publish`].
    ///
    /// # Errors
    /// Those of [`Client::publish`].
    pub async fn publish(self, client: &Client) -> Result<Published> {
        client.publish_event(self).await
    }
}

/// Checks and encodes an event. Middleware sees it in the form of a job. Of the options that
/// middleware sets, an event has group, headers, tags and id.
pub(super) fn prepared(event: Publication, on_enqueue: &EnqueueStack) -> Result<Prepared> {
    let Publication { topic, event, payload, mut options, tags } = event;
    check_name("topic", &topic)?;
    check_name("event", &event)?;
    let (address, payload) = (topic_address(&topic), payload?);
    if !on_enqueue.is_empty() {
        on_enqueue.enqueue(&mut Draft::new(&event, &address, Priority::Normal, payload.len(), &mut options))?;
    }
    let options = Options { id: options.id, group: options.group, headers: options.headers, tags: options.tags, ..Options::default() };
    let known = Known { task: &event, queue: &address, priority: Priority::Normal, unique: None, group: None, limits: &[], tags };
    prepare(&known, &payload, options, &EnqueueStack::by(on_enqueue.clock().clone()))
}
