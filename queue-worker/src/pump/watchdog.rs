//! The search for handlers that block their runtime or do not stop.

use std::{collections::BTreeMap, mem, sync::atomic::Ordering, time::Instant};

use queue_core::CancelCause;

use super::Pump;
use crate::{
    config::CANCEL_GRACE,
    letters::address,
    tuning::{BLOCKS, LOGGED_AGAIN},
};

pub(super) struct Watchdog {
    /// The time of the next check of the handlers.
    pub(super) at: Instant,
    /// The tasks that were reported to block their runtime, with the time of the report.
    blockers: BTreeMap<String, Instant>,
}

impl Watchdog {
    pub(super) fn new(at: Instant) -> Self {
        Watchdog { at, blockers: BTreeMap::new() }
    }
}

impl Pump {
    /// Cancels handlers that must not run without a lease, and logs those that do not stop. A job
    /// whose handler still runs keeps its slot and, while the broker is reachable, its lease.
    pub(super) fn check_handlers(&mut self, now: Instant) {
        let mut stuck = 0;
        for held in self.slots.iter_mut() {
            let Some(handler) = &held.handler else { continue };
            let (job, task) = (address(handler.context.queue(), &held.id), handler.context.task());
            let polls = handler.context.polls().load(Ordering::Relaxed);
            if polls % 2 == 0 || polls != held.polls.0 {
                held.polls = (polls, now);
            }
            let blocked = now.saturating_duration_since(held.polls.1);
            if blocked >= BLOCKS && self.watchdog.blockers.get(task).is_none_or(|logged| now >= *logged + LOGGED_AGAIN) {
                self.watchdog.blockers.insert(task.to_owned(), now);
                tracing::warn!(
                    %job,
                    task,
                    ?blocked,
                    "the handler blocks a thread of its runtime: it has not reached an `await` for {blocked:.0?}, and other handlers wait; \
                     make it a sync function with `#[task(blocking)]`, or move the blocking code into `spawn_blocking`"
                );
            }
            let lane = &self.queues[held.lane.queue].lanes[held.lane.lane];
            if handler.isolation && lane.lease.until() <= now {
                held.cancelled.get_or_insert((now, CancelCause::LeaseLost));
                handler.context.cancel(CancelCause::LeaseLost);
            }
            let end = match (handler.context.deadline(), held.cancelled) {
                (Some(deadline), Some((logged, _))) => Some(deadline.min(logged)),
                (deadline, logged) => deadline.or(logged.map(|(logged, _)| logged)),
            };
            if end.is_none_or(|end| end + CANCEL_GRACE * 2 >= now) {
                continue;
            }
            stuck += 1;
            if !mem::replace(&mut held.stuck, true) {
                tracing::error!(%job, task, "stuck: the handler was cancelled and still runs; it occupies its slot until it ends");
            }
        }
        self.shared.status.stuck.store(stuck, Ordering::Relaxed);
    }
}
