//! The numbers of a run.

use std::collections::BTreeMap;

use super::{
    facts::{Delivery, Facts, Fate},
    order, tokens,
};
use crate::history::{POWER_CUT, subscription_of};

/// The numbers of a run.
#[derive(Clone, Debug, Default)]
pub struct Summary {
    /// Accepted jobs.
    pub jobs: usize,
    /// Ticks of schedules that created a job.
    pub ticks: usize,
    /// Edits of waiting jobs.
    pub edited: usize,
    /// Jobs that have started with an edited payload.
    pub ran_edited: usize,
    /// Jobs whose first start was compared with those of later jobs of higher priorities.
    pub aged: usize,
    /// Published events.
    pub events: usize,
    /// The number of events that each subscription has handled, by its queue.
    pub handled: BTreeMap<String, usize>,
    /// The maximum time between an event and its first start in each of them, in milliseconds.
    pub waited_ms: BTreeMap<String, u64>,
    /// The number of times that a subscription had not read a removed event.
    pub lost_events: u64,
    /// Events that were removed from the log by recorded trims.
    pub trimmed: u64,
    /// Published events that are not in the log at the end.
    pub forgotten_events: usize,
    /// Runs of events that had been handled before.
    pub again: usize,
    /// Rewinds of subscriptions.
    pub rewinds: usize,
    /// Refused enqueues.
    pub refused: usize,
    /// Starts of handlers.
    pub starts: usize,
    /// Repeated starts that no handler requested, by their cause.
    pub duplicates: BTreeMap<&'static str, usize>,
    /// Finishes that were stale, because the lease was lost.
    pub fenced_off: usize,
    /// Faults, by name.
    pub faults: BTreeMap<String, usize>,
    /// Whether no handler started, ended or was finished after the first fault: the fault was too
    /// late.
    pub too_late_to_hit: bool,
    /// Cancels that were in time.
    pub cancelled: usize,
    /// Cancels whose job had ended or was removed.
    pub too_late: usize,
    /// The times from a fault to the next start of each affected job, in milliseconds, sorted.
    pub recovery_ms: Vec<u64>,
    /// The times from the end of all faults to the first renewal of each worker, in milliseconds,
    /// sorted.
    pub resume_ms: Vec<u64>,
}

impl Summary {
    pub(super) fn of(facts: &Facts<'_>) -> Self {
        let (enqueues, publishes) = (|| facts.enqueues.values().flatten(), || facts.publishes.values().flatten());
        let mut summary = Summary {
            jobs: enqueues().filter(|enqueue| enqueue.fate == Fate::Happened && !enqueue.existing).count(),
            ticks: facts.ticks.values().flatten().filter(|tick| tick.fate == Fate::Happened).count(),
            events: publishes().filter(|publish| publish.fate == Fate::Happened && !publish.existing).count(),
            lost_events: facts.snapshot.subscriptions.iter().map(|of| of.lost).sum(),
            trimmed: facts.trimmed.0,
            forgotten_events: publishes()
                .filter(|publish| {
                    publish.fate == Fate::Happened && publish.id.is_some_and(|id| !facts.snapshot.log.iter().any(|known| known == id))
                })
                .count(),
            rewinds: facts.subscriptions.values().flat_map(|of| &of.rewinds).filter(|rewind| rewind.fate == Fate::Happened).count(),
            refused: enqueues().chain(publishes()).filter(|enqueue| enqueue.fate == Fate::Refused).count(),
            ..Summary::default()
        };
        for (name, job) in &facts.jobs {
            let Some(queue) = subscription_of(name) else { continue };
            let ended = job.deliveries.values().any(|one| one.accepted().is_some_and(|finish| finish.ending.is_final()));
            *summary.handled.entry(queue.to_owned()).or_default() += usize::from(ended);
            let start = job.deliveries.values().find_map(|delivery| delivery.starts.first());
            let published = facts.enqueue_of(job).and_then(|publish| publish.span.to_us);
            if let (Some(start), Some(published)) = (start, published) {
                let longest = summary.waited_ms.entry(queue.to_owned()).or_default();
                *longest = (*longest).max(start.saturating_sub(published) / 1000);
            }
        }
        for (_, name, _) in &facts.faults {
            *summary.faults.entry((*name).to_owned()).or_default() += 1;
        }
        // Power cuts are simulated at the end, from the recording.
        let first = facts.faults.iter().filter(|(_, name, _)| *name != POWER_CUT).map(|(at, ..)| *at).min();
        summary.too_late_to_hit = first.is_some_and(|first| {
            let deliveries = || facts.jobs.values().flat_map(|job| job.deliveries.values());
            let finishes = |delivery: &Delivery<'_>| delivery.finishes.values().any(|finish| finish.span.to_us.is_none_or(|to| to > first));
            !deliveries().any(|one| one.starts.iter().chain(&one.ends).any(|at| *at > first) || finishes(one))
        });
        summary.aged = order::aged(facts).len();
        for job in facts.jobs.values() {
            let edits = job.edits.iter().filter(|(_, fate, _)| *fate == Fate::Happened);
            summary.edited += edits.clone().count();
            summary.ran_edited += edits.filter(|(.., edited)| job.start_digests.iter().any(|(_, digest)| digest == edited)).count();
            let cancels = |fate: Fate| job.cancels.iter().filter(|(_, seen)| *seen == fate).count();
            summary.cancelled += cancels(Fate::Happened);
            summary.too_late += cancels(Fate::Refused);
            for delivery in job.deliveries.values() {
                summary.starts += delivery.starts.len();
                summary.fenced_off += delivery.finishes.values().filter(|finish| finish.fate == Fate::Refused).count();
            }
            for (earlier, later) in job.deliveries.values().zip(job.deliveries.values().skip(1)) {
                summary.again += usize::from(earlier.accepted().is_some_and(|finish| finish.ending.is_final()));
                let asked = earlier.accepted().is_some_and(|finish| !matches!(finish.ending.name(), "return" | "park" | "void"));
                if asked || earlier.starts.is_empty() || later.starts.is_empty() {
                    continue;
                }
                let cause = tokens::cause(facts, job, earlier, later).map_or("unexplained", |cause| cause.name);
                *summary.duplicates.entry(cause).or_default() += 1;
                let taken = facts.faults.iter().rev().find(|(at, _, target)| *target == earlier.process && *at <= later.claimed_us);
                if let Some((at, ..)) = taken.filter(|_| cause == "reclaim") {
                    summary.recovery_ms.push((later.starts[0].saturating_sub(*at)) / 1000);
                }
            }
        }
        for heal in &facts.heals {
            for (_, times) in facts.renewals.values() {
                let known = times.first().is_some_and(|first| first < heal);
                if let Some(next) = times.iter().find(|at| *at >= heal).filter(|_| known) {
                    summary.resume_ms.push((next - heal) / 1000);
                }
            }
        }
        summary.recovery_ms.sort_unstable();
        summary.resume_ms.sort_unstable();
        summary
    }
}
