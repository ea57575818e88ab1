//! In which order, and how many at once: I14, I15.

use std::collections::BTreeMap;

use super::{
    Invariant,
    facts::{About, Facts, Fate, Finding, broken},
};

pub(super) fn check(facts: &Facts<'_>, found: &mut Vec<Finding>) {
    fifo(facts, found);
    limits(facts, found);
}

/// I14: of two enqueues that do not overlap, the first is started first.
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

/// I15: a process never runs more than it may.
fn limits(facts: &Facts<'_>, found: &mut Vec<Finding>) {
    let mut steps: BTreeMap<&str, Vec<(u64, i64)>> = BTreeMap::new();
    for delivery in facts.jobs.values().flat_map(|job| job.deliveries.values()) {
        let steps = steps.entry(delivery.process).or_default();
        // What never ended went with its process.
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
