//! Requests of operators: claim nothing, claim again, or stop. They arrive with the answer to a
//! heartbeat.

use std::sync::atomic::Ordering;

use queue_core::broker::{WorkerAsk, WorkerMode};

use super::{Pump, reason::Reason};
use crate::time::now;

/// The last request of an operator.
pub(super) struct Request {
    pub(super) mode: WorkerMode,
    pub(super) number: u64,
}

impl Default for Request {
    fn default() -> Self {
        Request { mode: WorkerMode::Works, number: 0 }
    }
}

impl Pump {
    pub(super) fn mode(&self) -> WorkerMode {
        if self.stop.times.is_some() { WorkerMode::Stopping } else { self.request.mode }
    }

    /// Applies the last request. It arrives with every heartbeat that carries the load, and is
    /// applied once. A stop cannot be undone.
    pub(super) fn apply_request(&mut self, ask: &WorkerAsk) {
        if ask.number <= self.request.number {
            return;
        }
        self.request.number = ask.number;
        // The next heartbeat is due at once, so that the operator sees the new mode.
        self.heartbeat.at = now();
        let by = ask.by.as_str();
        match ask.mode {
            _ if self.mode() == WorkerMode::Stopping => {
                tracing::info!(by, asked = %ask.mode, "a request was ignored: the worker is stopping")
            }
            mode if mode == self.request.mode => {}
            WorkerMode::Quiet => {
                tracing::info!(by, "the worker was asked to claim nothing: running jobs continue, and it stays registered")
            }
            WorkerMode::Works => {
                tracing::info!(by, "the worker was asked to claim again");
                self.queues.all.iter_mut().for_each(|queue| queue.work.ask(Reason::Clock));
            }
            _ => tracing::info!(by, "the worker was asked to stop: no new jobs; running jobs may finish within the grace time"),
        }
        if self.mode() != WorkerMode::Stopping {
            self.request.mode = ask.mode;
            self.shared.status.quiet.store(ask.mode == WorkerMode::Quiet, Ordering::Relaxed);
        }
    }
}
