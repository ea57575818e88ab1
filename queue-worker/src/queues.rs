//! The queues that a worker serves.

use std::sync::{Arc, atomic::AtomicBool};

use queue_core::__private::LeaseClock;

/// Parts of the worker refer to a queue by its index in this list.
pub(crate) type Queues = Arc<[Queue]>;

pub(crate) struct Queue {
    pub(crate) name: Arc<str>,
    /// The time until which a program waits for the result of a job of the queue, as far as known.
    /// Until then, results of jobs without a retention are also sent.
    pub(crate) watched: LeaseClock,
    /// Whether the queue has, or had, schedules.
    pub(crate) has_schedules: AtomicBool,
}

/// The queues with these names.
pub(crate) fn queues<'a>(names: impl IntoIterator<Item = &'a str>) -> Queues {
    let queue = |name: &str| Queue { name: name.into(), watched: LeaseClock::default(), has_schedules: AtomicBool::new(false) };
    names.into_iter().map(queue).collect()
}
