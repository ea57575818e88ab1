//! What happened, in numbers.

use std::collections::BTreeMap;

use super::{
    facts::{Facts, Fate},
    tokens,
};

/// The numbers of a run.
#[derive(Clone, Debug, Default)]
pub struct Summary {
    /// Jobs that were accepted.
    pub jobs: usize,
    /// Ticks of schedules that made a job.
    pub ticks: usize,
    /// Enqueues that were refused.
    pub refused: usize,
    /// Starts of handlers.
    pub starts: usize,
    /// Starts that no handler asked for, by their cause.
    pub duplicates: BTreeMap<&'static str, usize>,
    /// Finishes that did not count, because the lease was lost.
    pub fenced_off: usize,
    /// Faults, by name.
    pub faults: BTreeMap<String, usize>,
    /// Cancels that came in time.
    pub cancelled: usize,
    /// Those that found their job ended, or gone.
    pub too_late: usize,
    /// Milliseconds from a fault to the next start of each job that it took away, sorted.
    pub recovery_ms: Vec<u64>,
    /// Milliseconds from the end of all harm to the first word of each worker, sorted.
    pub resume_ms: Vec<u64>,
}

impl Summary {
    pub(super) fn of(facts: &Facts<'_>) -> Self {
        let enqueues = || facts.enqueues.values().flatten();
        let mut summary = Summary {
            jobs: enqueues().filter(|enqueue| enqueue.fate == Fate::Happened && !enqueue.existing).count(),
            ticks: facts.ticks.values().flatten().filter(|tick| tick.fate == Fate::Happened).count(),
            refused: enqueues().filter(|enqueue| enqueue.fate == Fate::Refused).count(),
            ..Summary::default()
        };
        for (_, name, _) in &facts.faults {
            *summary.faults.entry((*name).to_owned()).or_default() += 1;
        }
        for job in facts.jobs.values() {
            let cancels = |fate: Fate| job.cancels.iter().filter(|(_, seen)| *seen == fate).count();
            summary.cancelled += cancels(Fate::Happened);
            summary.too_late += cancels(Fate::Refused);
            for delivery in job.deliveries.values() {
                summary.starts += delivery.starts.len();
                summary.fenced_off += delivery.finishes.values().filter(|finish| finish.fate == Fate::Refused).count();
            }
            for (earlier, later) in job.deliveries.values().zip(job.deliveries.values().skip(1)) {
                let asked = earlier.accepted().is_some_and(|finish| !matches!(finish.ending.name(), "release" | "park" | "void"));
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
