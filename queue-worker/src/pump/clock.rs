//! Timed work: polls, due jobs, heartbeats, and the search for handlers that should have stopped.

use std::{
    mem,
    sync::atomic::Ordering,
    time::{Duration, Instant},
};

use queue_core::{
    CancelCause,
    broker::{Extend, WorkerAsk, WorkerLoad, WorkerMode},
};

use super::{
    Pump, far,
    heartbeat::{self, Beat},
    lane::LaneId,
    reason::Reason,
};
use crate::{
    config::CANCEL_GRACE,
    letters::address,
    metrics,
    time::now,
    tuning::{BLOCKS, NEWS_APART, POLL, POLL_SHARE, POLLED_TOGETHER, TOLD_AGAIN},
};

impl Pump {
    pub(super) fn look_at_clock(&mut self) {
        let now = now();
        let is_due = self.wakes.first().is_some_and(|(wake, _)| *wake <= now);
        // Quiet queues that are due soon are polled together, so that their requests are sent as
        // one.
        let soon = if is_due { now + POLLED_TOGETHER } else { now };
        let together: Vec<usize> = self.wakes.range(..(soon, 0)).map(|(_, queue)| *queue).collect();
        for queue in together {
            if self.queues[queue].wake > now && !self.queues[queue].work.is_calm() {
                continue;
            }
            // The answer has the time of the next poll.
            self.set_wake(queue, now + far());
            self.poll(queue, now);
        }
        if now >= self.beat_at {
            self.beat_at = now + self.shared.settings.beat();
            let due = self.due(now);
            // A beat that is still waited for is not doubled: it ends at its deadline.
            if due.is_empty() {
                self.silent = None;
            } else if self.beats.len() < 2 {
                self.beats.push(Box::pin(heartbeat::send(self.shared.connection.clone(), due)));
            }
        }
        if now >= self.tick_at {
            self.tick_at = now + self.shared.settings.tick();
            self.shared.status.pulse.set(now);
            self.look_at_handlers(now);
            self.look_at_suspects(now);
            self.look_at_turns(now);
            self.shared.connection.outage.look(now);
        }
    }

    fn due(&mut self, now: Instant) -> Vec<(LaneId, u32, Extend)> {
        self.speaker = heartbeat::speaker(&self.queues, self.speaker);
        let load = self.load(now);
        let speakers = heartbeat::speakers(&self.queues, self.speaker, load.mode);
        heartbeat::due(&self.queues, self.shared.settings.lease, &speakers, load)
    }

    /// The record of the worker.
    pub(super) fn load(&mut self, now: Instant) -> WorkerLoad {
        let load = self.usage.load(self.slots.len() - self.free.len(), self.slots.len(), now).working(self.mode(), self.heard);
        metrics::used(&load);
        load
    }

    /// The first beat follows the first registration, and is that of the speaker alone: a worker
    /// cannot be controlled before its first report.
    pub(super) fn speak_first(&mut self) {
        if self.speaker.is_none() && self.stopping.is_none() {
            let mut due = self.due(now());
            due.retain(|(_, _, extend)| extend.load.is_some());
            if !due.is_empty() {
                self.beats.push(Box::pin(heartbeat::send(self.shared.connection.clone(), due)));
            }
        }
    }

    /// Looks for work that was not announced. Where there was none, a look costs less than a turn,
    /// which has to come only often enough for the lease.
    fn poll(&mut self, queue: usize, now: Instant) {
        let state = &mut self.queues[queue];
        let fresh = now + self.shared.settings.lease / 2;
        if !state.work.is_calm() || !state.lanes.iter().any(|lane| lane.name.is_some() && lane.lease.until() > fresh) {
            state.work.ask(Reason::Clock);
            return;
        }
        let (connection, name) = (self.shared.connection.clone(), state.name.clone());
        self.looks.push(Box::pin(async move {
            let calm = matches!(connection.broker.has_work(&name).await, Ok(false));
            if calm {
                connection.answered();
            }
            (queue, calm)
        }));
    }

    /// A queue that is not calm, or whose broker has not answered, gets a turn.
    pub(super) fn looked(&mut self, queue: usize, calm: bool) {
        let state = &mut self.queues[queue];
        if !calm {
            state.work.ask(Reason::Looked);
        }
        let poll = poll_interval(state.workers);
        self.wake_by(queue, now() + poll);
    }

    pub(super) fn beats_ended(&mut self, sent: Instant, beats: Vec<Beat>) {
        let (lanes, mut unanswered, mut asked) = (beats.len(), None, None);
        let turns = self.mode == WorkerMode::Works;
        for Beat { lane: id, generation, said, answer } in beats {
            if let (Some(mode), true) = (said, answer.is_ok()) {
                self.queues[id.queue].said = mode;
            }
            let lane = &mut self.queues[id.queue].lanes[id.lane];
            if lane.generation != generation {
                continue;
            }
            match answer {
                Ok(extended) => {
                    // An idle lane is kept alive by its turns, which also report new jobs of its
                    // queue.
                    if lane.is_used() || !turns {
                        lane.lease.set((sent + self.shared.settings.lease).max(lane.lease.until()));
                    }
                    // It may have been asked in several queues, in each of which it has spoken.
                    asked = asked.into_iter().chain(extended.asked).max_by_key(|ask: &WorkerAsk| ask.number);
                    for (job, claim) in extended.cancelled {
                        self.cancel(CancelCause::Cancelled, |held| held.lane == id && held.claim == claim && held.id == job);
                    }
                }
                Err(queue_core::Error::Forgotten(_)) => self.forgotten(id),
                Err(error) => {
                    let (count, _) = unanswered.get_or_insert((0, error));
                    *count += 1;
                }
            }
        }
        if let Some(ask) = asked {
            self.asked(&ask);
        }
        // One line, however many lanes there are.
        match unanswered {
            Some((count, error)) if error.is_transient() => {
                self.silent.get_or_insert_with(|| self.shared.connection.outage.met(sent, &error));
                tracing::debug!(leases = count, of = lanes, %error, "leases were not renewed");
            }
            Some((count, error)) => {
                self.silent = None;
                self.shared.connection.outage.answered();
                let broker = self.shared.connection.broker.info().location;
                match self.refused {
                    Some(_) => tracing::debug!(broker, leases = count, of = lanes, %error, "leases were not renewed"),
                    None => {
                        self.refused = Some(now());
                        tracing::warn!(broker, leases = count, of = lanes, %error, "leases were not renewed; the worker retries with each heartbeat");
                    }
                }
            }
            None => {
                self.silent = None;
                self.shared.connection.outage.answered();
                if let Some(since) = self.refused.take() {
                    let lasted = now().saturating_duration_since(since);
                    tracing::warn!(broker = self.shared.connection.broker.info().location, ?lasted, "leases are renewed again");
                }
            }
        }
    }

    /// Cancels what must not run on without a lease, and shows what does not stop. A job whose handler still runs is never
    /// given away: it keeps its slot and, while the broker is in reach, its lease.
    fn look_at_handlers(&mut self, now: Instant) {
        let mut stuck = 0;
        for held in self.slots.iter_mut().flatten() {
            let Some(handler) = &held.handler else { continue };
            let (job, task) = (address(handler.context.queue(), &held.id), handler.context.task());
            let polls = handler.context.polls().load(Ordering::Relaxed);
            if polls % 2 == 0 || polls != held.polls.0 {
                held.polls = (polls, now);
            }
            let blocked = now.saturating_duration_since(held.polls.1);
            if blocked >= BLOCKS && self.blockers.get(task).is_none_or(|told| now >= *told + TOLD_AGAIN) {
                self.blockers.insert(task.to_owned(), now);
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
                held.told.get_or_insert((now, CancelCause::LeaseLost));
                handler.context.cancel(CancelCause::LeaseLost);
            }
            let end = match (handler.context.deadline(), held.told) {
                (Some(deadline), Some((told, _))) => Some(deadline.min(told)),
                (deadline, told) => deadline.or(told.map(|(told, _)| told)),
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

    /// Looks at the queue at this time, if not before.
    pub(super) fn wake_by(&mut self, queue: usize, wake: Instant) {
        if wake < self.queues[queue].wake {
            self.set_wake(queue, wake);
        }
    }

    fn set_wake(&mut self, queue: usize, wake: Instant) {
        let state = &mut self.queues[queue];
        self.wakes.remove(&(state.wake, queue));
        state.wake = wake;
        self.wakes.insert((wake, queue));
    }

    /// Beats at once, unless it has just done so.
    pub(super) fn beat_soon(&mut self, now: Instant) {
        let last = self.beat_at.checked_sub(self.shared.settings.beat()).unwrap_or(now);
        self.beat_at = self.beat_at.min(now.max(last + NEWS_APART));
    }

    pub(super) fn next_wake(&self) -> Instant {
        let next = self.wakes.first().map_or(self.tick_at, |(wake, _)| *wake).min(self.beat_at).min(self.tick_at);
        [self.pace.next(), self.next_introduction(), self.next_step_of_stop()].into_iter().flatten().fold(next, Instant::min)
    }
}

/// Between two polls of an idle queue: about five a second by all of its lanes together, and one a second by each where they
/// are few; never at the same time.
pub(super) fn poll_interval(workers: usize) -> Duration {
    let shared = POLL_SHARE.saturating_mul(u32::try_from(workers).unwrap_or(u32::MAX)).min(far());
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
