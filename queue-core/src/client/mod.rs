//! Enqueues: [`Client`], the typed [`Job`], its [`Handle`].

use crate::{address::JobAddress, broker::DynBroker};

/// Connects an application to its queue. Cheap to clone.
#[derive(Clone, Debug)]
pub struct Client {
    broker: DynBroker,
}

impl Client {
    /// The broker behind it.
    pub fn broker(&self) -> &DynBroker {
        &self.broker
    }
}

/// An enqueue without an answer.
#[derive(Debug)]
pub struct Pending {
    jobs: Vec<JobAddress>,
}

impl Pending {
    /// How many jobs it is about.
    pub fn len(&self) -> usize {
        self.jobs.len()
    }

    /// Never true: there is at least one job.
    pub fn is_empty(&self) -> bool {
        self.jobs.is_empty()
    }
}
