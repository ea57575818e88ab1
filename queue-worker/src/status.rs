//! The state of a running worker, which its probes report.

use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize};

use queue_core::__private::LeaseClock;

#[derive(Default)]
pub(crate) struct Status {
    /// Whether the broker has been reached once, so that work could begin.
    pub(crate) reached: AtomicBool,
    /// Whether an operator has asked the worker to claim nothing.
    pub(crate) quiet: AtomicBool,
    /// Whether the worker has a stop request: no job is started any more.
    pub(crate) stopping: AtomicBool,
    /// When the pump last read its clock.
    pub(crate) pulse: LeaseClock,
    /// Jobs that run.
    pub(crate) running: AtomicUsize,
    /// Running jobs that were cancelled and did not stop.
    pub(crate) stuck: AtomicUsize,
    /// Handlers that have ended.
    pub(crate) finished: AtomicU64,
}
