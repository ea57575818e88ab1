//! The state of a running worker, which its probes report.

use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize};

use queue_core::__private::LeaseClock;

#[derive(Default)]
pub(crate) struct Status {
    /// Whether the broker was reached, so that work could begin.
    pub(crate) reached: AtomicBool,
    /// Whether an operator has asked the worker to claim nothing.
    pub(crate) quiet: AtomicBool,
    /// Whether the worker has a stop request. No job is started after that.
    pub(crate) stopping: AtomicBool,
    /// The last time at which the pump has read its clock.
    pub(crate) pulse: LeaseClock,
    /// The number of running jobs.
    pub(crate) running: AtomicUsize,
    /// Running jobs that were cancelled and did not stop.
    pub(crate) stuck: AtomicUsize,
    /// Handlers that have ended.
    pub(crate) finished: AtomicU64,
}
