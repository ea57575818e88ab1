//! Requests of operators: claim nothing, claim again, or stop. They arrive with the answer to a
//! heartbeat.

use std::sync::atomic::Ordering;

use queue_core::broker::{WorkerAsk, WorkerMode};

use super::{Pump, reason::Reason};
use crate::time::now;

impl Pump {
    /// How the worker works now.
    pub(super) fn mode(&self) -> WorkerMode {
        if self.stopping.is_some() { WorkerMode::Stopping } else { self.mode }
    }

    /// Takes in what was asked last. A request arrives with every heartbeat that carries the load,
    /// and counts once. Nothing takes a stop back.
    pub(super) fn asked(&mut self, ask: &WorkerAsk) {
        if ask.number <= self.heard {
            return;
        }
        self.heard = ask.number;
        // The requester is notified at once.
        self.beat_at = now();
        let by = ask.by.as_str();
        match ask.mode {
            _ if self.mode() == WorkerMode::Stopping => {
                tracing::info!(by, asked = %ask.mode, "a request was ignored: the worker is stopping")
            }
            mode if mode == self.mode => {}
            WorkerMode::Quiet => {
                tracing::info!(by, "the worker was asked to claim nothing: running jobs continue, and it stays registered")
            }
            WorkerMode::Works => {
                tracing::info!(by, "the worker was asked to claim again");
                self.queues.iter_mut().for_each(|queue| queue.work.ask(Reason::Clock));
            }
            _ => tracing::info!(by, "the worker was asked to stop: no new jobs; running jobs may finish within the grace time"),
        }
        if self.mode() != WorkerMode::Stopping {
            self.mode = ask.mode;
            self.shared.status.quiet.store(ask.mode == WorkerMode::Quiet, Ordering::Relaxed);
        }
    }
}
