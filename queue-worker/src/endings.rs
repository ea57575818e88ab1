//! The endings that tasks have committed with their effects: see [`run::commit`](crate::run).

#[cfg(feature = "outbox")]
pub(crate) use queue_outbox::completion::Endings;

/// Without outboxes there are none.
#[cfg(not(feature = "outbox"))]
#[derive(Debug)]
pub(crate) enum Endings {}

#[cfg(not(feature = "outbox"))]
#[allow(clippy::unused_async, reason = "as in queue-outbox")]
impl Endings {
    pub(crate) async fn find(&self, _: &queue_core::completion::EffectsKey) -> Result<Found, String> {
        match *self {}
    }

    pub(crate) async fn settled(&self, _: &queue_core::completion::EffectsKey) -> Result<Option<Vec<u8>>, String> {
        match *self {}
    }
}

#[cfg(not(feature = "outbox"))]
pub(crate) struct Found {
    pub(crate) ending: Option<Vec<u8>>,
    pub(crate) databases: Vec<Vec<u8>>,
}
