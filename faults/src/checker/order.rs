//! Order and concurrency: I14, I15.

use std::collections::BTreeMap;

use super::{
    Invariant,
    facts::{About, Facts, Fate, Finding, Job, broken},
};

/// Jobs rise when a worker claims, and a claim promotes a bounded number of jobs. Many jobs
/// therefore need some time and some claims.
const SLACK_US: u64 = 500_000;
const SLACK_CLAIMS: usize = 10;

/// The maximum time, in milliseconds, for which jobs of a crashed process are held after its lease.
const TAKEN_BACK_MS: u64 = 20_000;

pub(super) fn check(facts: &Facts<'_>, found: &mut Vec<Finding>) {
    fifo(facts, found);
    limits(facts, found);
    starving(facts, found);
}

/// I14, of priorities: a waiting job rises, so no job that is stored after three intervals starts
/// before it.
fn starving(facts: &Facts<'_>, found: &mut Vec<Finding>) {
    let Some(aging_ms) = facts.terms.aging_ms else { return };
    for (id, risen_us, claim) in aged(facts) {
        let overtakes = |other: &Job<'_>| {
            let Some(first) = other.deliveries.values().next().filter(|first| first.crashes == 0 && first.claim < claim) else {
                return false;
            };
            facts.enqueue_of(other).is_some_and(|enqueue| enqueue.span.from_us > risen_us && enqueue.delay_ms == 0) && first.attempts == 0
        };
        if facts.jobs.values().any(overtakes) {
            let what = format!("started behind jobs that came more than three times {aging_ms} ms after it");
            broken(found, Invariant::Fifo, id, what);
        }
    }
}

/// Jobs that surely waited from their enqueue to their first claim for longer than they need to
/// reach the highest priority, with the time at which they had reached it, and the claim.
pub(super) fn aged<'a>(facts: &'a Facts<'_>) -> Vec<(&'a str, u64, u64)> {
    let Some(aging_ms) = facts.terms.aging_ms else { return Vec::new() };
    // The claims of a process that crashed before it could record them are unknown until its lane
    // was fenced.
    let unknown = facts.unanswered_until(TAKEN_BACK_MS);
    let claims = facts.asked();
    let mut aged = Vec::new();
    for (id, job) in &facts.jobs {
        let (Some(enqueue), Some(first)) = (facts.enqueue_of(job), job.deliveries.values().next()) else { continue };
        let Some(stored) = enqueue.span.to_us.filter(|_| enqueue.fate == Fate::Happened && enqueue.delay_ms == 0) else { continue };
        let due = stored + 3 * aging_ms * 1000;
        let Some(claimed) = claims.get(claims.partition_point(|at| *at < due) + SLACK_CLAIMS - 1) else { continue };
        let risen = (due + SLACK_US).max(*claimed);
        let was_touched =
            !job.cancels.is_empty() || !job.deletes.is_empty() || !job.requeues.is_empty() || first.crashes + first.attempts > 0;
        let in_doubt = unknown.iter().any(|(from, to)| *from < first.claimed_us && *to > enqueue.span.from_us);
        if !was_touched && !in_doubt && first.claimed_us > risen {
            aged.push((*id, risen, first.claim));
        }
    }
    aged
}

/// I14: if two enqueues do not overlap, the first job starts first.
fn fifo(facts: &Facts<'_>, found: &mut Vec<Finding>) {
    if !facts.terms.fifo {
        return;
    }
    let mut jobs: Vec<_> = facts
        .jobs
        .iter()
        .filter_map(|(id, job)| {
            let enqueue = facts.enqueue_of(job).filter(|enqueue| enqueue.fate == Fate::Happened && enqueue.delay_ms == 0)?;
            Some((enqueue.span.from_us, enqueue.span.to_us?, job.deliveries.values().next()?.claim, *id))
        })
        .collect();
    jobs.sort_unstable();
    let mut by_end = jobs.clone();
    by_end.sort_unstable_by_key(|(_, to, ..)| *to);
    let mut ended = by_end.into_iter().peekable();
    let mut latest: Option<(u64, &str)> = None;
    for (from, _, claim, id) in jobs {
        while let Some((_, _, claim, id)) = ended.next_if(|(_, to, ..)| *to < from) {
            latest = latest.max(Some((claim, id)));
        }
        if let Some((_, overtaken)) = latest.filter(|(before, _)| *before > claim) {
            broken(found, Invariant::Fifo, id, format!("started before {overtaken}, which had been enqueued before it"));
        }
    }
}

/// I15: the number of running jobs of a process is at most its limit.
fn limits(facts: &Facts<'_>, found: &mut Vec<Finding>) {
    let mut steps: BTreeMap<&str, Vec<(u64, i64)>> = BTreeMap::new();
    for delivery in facts.jobs.values().flat_map(|job| job.deliveries.values()) {
        let steps = steps.entry(delivery.process).or_default();
        // A run without an end has ended with its process.
        for (start, end) in delivery.starts.iter().zip(&delivery.ends) {
            // At one moment, ends come before starts.
            steps.extend([(*start, 1), (*end, -1)]);
        }
    }
    for (process, mut steps) in steps {
        steps.sort_unstable();
        let limit = facts.processes.get(process).and_then(|process| process.lives.iter().map(|life| life.2).max());
        let mut running = 0;
        let most = steps.into_iter().map(|(_, step)| {
            running += step;
            running
        });
        let most = usize::try_from(most.max().unwrap_or(0)).unwrap_or(0);
        if let Some(limit) = limit.filter(|limit| most > *limit) {
            let what = format!("process {process} ran {most} jobs at once, of at most {limit}");
            found.push(Finding { invariant: Invariant::Limits, about: About::Process(process.to_owned()), what });
        }
    }
}
