//! The counters of the last two minutes, for rates and for the chart of the overview.
//!
//! The dashboard reads the counters only while a page is open. This history begins with the first
//! page, and is lost when the process ends. The history that the queue itself keeps (by minute and
//! by hour) also covers the time without an open page.

use std::{
    collections::{BTreeMap, VecDeque},
    time::{Duration, Instant},
};

use queue_core::inspect::Counter;

use crate::snapshot::Snapshot;

/// The length of the history.
const WINDOW: Duration = Duration::from_secs(120);

/// The interval between two kept totals of all queues.
const STEP: Duration = Duration::from_secs(2);

/// The interval between two kept totals of each queue. It is longer because there may be many
/// queues.
const QUEUE_STEP: Duration = Duration::from_secs(10);

/// The maximum time over which a rate is measured.
const RATE: Duration = Duration::from_secs(60);

/// The minimum time over which a rate is measured.
const LEAST: Duration = Duration::from_millis(400);

/// The totals of a queue, or of all.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Totals {
    pub(crate) enqueued: u64,
    pub(crate) done: u64,
    pub(crate) failed: u64,
}

/// The rates per second.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(crate) struct Rates {
    pub(crate) enqueued: f64,
    pub(crate) done: f64,
    pub(crate) failed: f64,
}

/// The last two minutes.
#[derive(Debug, Default)]
pub(crate) struct History {
    all: VecDeque<(Instant, Totals)>,
    queues: VecDeque<(Instant, BTreeMap<String, Totals>)>,
}

impl History {
    pub(crate) fn add(&mut self, snapshot: &Snapshot) {
        let now = snapshot.taken;
        let of = |total: &dyn Fn(Counter) -> u64| Totals {
            enqueued: total(Counter::Enqueued),
            done: total(Counter::Done),
            failed: total(Counter::Failed),
        };
        // The newest sample is always kept. Within a step it replaces the one before.
        keep(&mut self.all, STEP, now, of(&|counter| snapshot.total(counter)));
        let queues = snapshot.queues.iter().map(|queue| (queue.name.clone(), of(&|counter| queue.stats.total(counter))));
        keep(&mut self.queues, QUEUE_STEP, now, queues.collect());
    }

    /// The rates of all queues. `None` until there are two samples.
    pub(crate) fn rates(&self) -> Option<Rates> {
        let (now, last) = self.all.back()?;
        let (then, first) = self.all.iter().find(|(at, _)| now.duration_since(*at) <= RATE)?;
        between(*first, *last, now.duration_since(*then))
    }

    /// The rates of one queue.
    pub(crate) fn rates_of(&self, queue: &str) -> Option<Rates> {
        let (now, last) = self.queues.back()?;
        let (then, first) = self.queues.iter().find(|(at, _)| now.duration_since(*at) <= RATE)?;
        between(*first.get(queue)?, *last.get(queue)?, now.duration_since(*then))
    }

    /// The rates of each step, oldest first, with the time since its end, and its length.
    pub(crate) fn steps(&self) -> Vec<(Duration, Duration, Rates)> {
        let Some((now, _)) = self.all.back() else { return Vec::new() };
        let pairs = self.all.iter().zip(self.all.iter().skip(1));
        let steps = pairs.filter_map(|((then, first), (at, last))| {
            let long = at.duration_since(*then);
            Some((now.duration_since(*at), long, between(*first, *last, long)?))
        });
        steps.collect()
    }

    pub(crate) fn window() -> Duration {
        WINDOW
    }
}

fn keep<T>(kept: &mut VecDeque<(Instant, T)>, step: Duration, now: Instant, value: T) {
    while kept.front().is_some_and(|(at, _)| now.duration_since(*at) > WINDOW) {
        kept.pop_front();
    }
    let steps = kept.len();
    if steps >= 2 && now.duration_since(kept[steps - 2].0) < step {
        kept.pop_back();
    }
    kept.push_back((now, value));
}

fn between(first: Totals, last: Totals, time: Duration) -> Option<Rates> {
    let per_second = |first: u64, last: u64| last.saturating_sub(first) as f64 / time.as_secs_f64();
    (time >= LEAST).then(|| Rates {
        enqueued: per_second(first.enqueued, last.enqueued),
        done: per_second(first.done, last.done),
        failed: per_second(first.failed, last.failed),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_kept_is_bounded_and_rates_are_of_the_last_minute() {
        let mut kept = VecDeque::new();
        let start = Instant::now();
        for tenth in 0..6_000_u64 {
            keep(&mut kept, STEP, start + Duration::from_millis(tenth * 100), Totals { done: tenth, ..Totals::default() });
        }
        assert!(kept.len() <= 64, "{}", kept.len());
        assert_eq!(kept.back().unwrap().1.done, 5_999);
        let history = History { all: kept, ..History::default() };
        assert!((history.rates().unwrap().done - 10.0).abs() < 0.1, "{:?}", history.rates());
        assert!(history.steps().iter().all(|(.., rates)| (rates.done - 10.0).abs() < 0.1));
    }

    #[test]
    fn a_counter_that_begins_again_is_no_negative_rate() {
        let (first, last) = (Totals { done: 9, ..Totals::default() }, Totals { done: 1, ..Totals::default() });
        assert_eq!(between(first, last, Duration::from_secs(1)).unwrap().done, 0.0);
        assert_eq!(between(first, last, Duration::ZERO), None);
    }
}
