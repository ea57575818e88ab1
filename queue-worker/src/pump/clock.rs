//! Timed work: polls of queues, due jobs, heartbeats and checks.

use std::time::{Duration, Instant};

use super::{Pump, far_future, reason::Reason};
use crate::{
    time::now,
    tuning::{POLL, POLL_SHARE, POLLED_TOGETHER},
};

impl Pump {
    pub(super) fn run_timers(&mut self) {
        let now = now();
        let is_due = self.queues.next_wake().is_some_and(|wake| wake <= now);
        // Quiet queues that are due soon are polled together, so that their requests are sent as
        // one.
        let soon = if is_due { now + POLLED_TOGETHER } else { now };
        for queue in self.queues.due(soon) {
            if self.queues[queue].wake > now && !self.queues[queue].work.is_calm() {
                continue;
            }
            // The answer contains the time of the next poll.
            self.queues.set_wake(queue, now + far_future());
            self.poll(queue, now);
        }
        self.send_heartbeats(now);
        if now >= self.watchdog.at {
            self.watchdog.at = now + self.shared.settings.tick();
            self.shared.status.pulse.set(now);
            self.check_handlers(now);
            self.clear_suspect(now);
            self.release_late_turns(now);
            self.shared.connection.outage.log_if_lasting(now);
        }
    }

    /// Checks for work that was not announced. If the queue was calm, this is a poll, which costs
    /// less than a turn. A turn is then needed only to renew the lease.
    fn poll(&mut self, queue: usize, now: Instant) {
        let state = &mut self.queues[queue];
        let fresh = now + self.shared.settings.lease / 2;
        if !state.work.is_calm() || !state.lanes.iter().any(|lane| lane.name.is_some() && lane.lease.until() > fresh) {
            state.work.ask(Reason::Clock);
            return;
        }
        let (connection, name) = (self.shared.connection.clone(), state.name.clone());
        self.polls.push(Box::pin(async move {
            let calm = matches!(connection.broker.has_work(&name).await, Ok(false));
            if calm {
                connection.answered();
            }
            (queue, calm)
        }));
    }

    /// A queue that is not calm, or whose broker has not answered, gets a turn.
    pub(super) fn poll_ended(&mut self, queue: usize, calm: bool) {
        let state = &mut self.queues[queue];
        if !calm {
            state.work.ask(Reason::Polled);
        }
        let poll = poll_interval(state.workers);
        self.queues.wake_by(queue, now() + poll);
    }

    pub(super) fn next_wake(&self) -> Instant {
        let next = self.heartbeat.at.min(self.watchdog.at);
        let others = [self.queues.next_wake(), self.pace.next(), self.next_registration(), self.next_stop_check()];
        others.into_iter().flatten().fold(next, Instant::min)
    }
}

/// The time between two polls of an idle queue by one lane. All lanes of the queue together poll it
/// about five times a second. If there are few lanes, each polls it once a second. The interval is
/// random, so that lanes do not poll at the same time.
pub(super) fn poll_interval(workers: usize) -> Duration {
    let shared = POLL_SHARE.saturating_mul(u32::try_from(workers).unwrap_or(u32::MAX)).min(far_future());
    shared.max(POLL).mul_f64(0.75 + fastrand::f64() / 2.0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn many_workers_of_a_queue_share_its_polls() {
        for _ in 0..100 {
            assert!((750..=1250).contains(&poll_interval(1).as_millis()));
            assert!((15_000..=25_000).contains(&poll_interval(100).as_millis()));
            assert!(poll_interval(usize::MAX) < Duration::from_secs(90));
        }
    }
}
