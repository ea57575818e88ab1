//! Replaces `metrics` if the feature is off: it reports nothing, without overhead.

use std::sync::Arc;

use queue_core::{__private::Answer, Client};

use crate::messages::Ran;

pub(crate) struct TaskMetrics;

impl TaskMetrics {
    pub(crate) fn new(_: &Arc<str>, _: &str, _: usize) -> Self {
        TaskMetrics
    }

    #[expect(clippy::unused_self, reason = "as with the feature")]
    pub(crate) fn begun(&self) {}

    #[expect(clippy::unused_self, reason = "as with the feature")]
    pub(crate) fn ended(&mut self, _: &'static str, _: Option<Ran>) {}
}

pub(crate) fn reclaimed(_: &str, _: usize, _: usize) {}

pub(crate) fn ticked(_: &str, _: &[std::time::Duration], _: u64) {}

pub(crate) fn reconnected() {}

pub(crate) fn used(_: &queue_core::broker::WorkerLoad) {}

pub(crate) fn observed(client: &Client) -> Client {
    client.clone()
}

pub(crate) fn install() {}

pub(crate) fn answer() -> Option<Answer> {
    None
}
