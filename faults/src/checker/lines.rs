//! I30: jobs of an ordered group run one after the other, in their order. A job that waits for its
//! retry blocks the group line.
//!
//! Claims are numbered in their order. If a job was surely stored before another one, no claim of
//! the second job may come before the last claim of the first, or before its end.

use std::collections::BTreeMap;

use super::{
    Invariant,
    facts::{Delivery, Facts, Fate, Finding, Job, Span, broken},
};
use crate::{history::subscription_of, process::group, work::QUEUE};

/// A job in a line, between two rewinds of its subscription.
struct Place<'a> {
    id: &'a str,
    key: u64,
    stored: Span,
    first: &'a Delivery<'a>,
    last: &'a Delivery<'a>,
}

pub(super) fn check(facts: &Facts<'_>, found: &mut Vec<Finding>) {
    for (queue, groups) in &facts.terms.ordered {
        // A rewind restarts the lines, so they are checked before the first and after the last
        // rewind.
        let rewinds = facts.subscriptions.get(queue.as_str()).map_or(&[][..], |of| &of.rewinds);
        let first_us = rewinds.iter().map(|rewind| rewind.span.from_us).min().unwrap_or(u64::MAX);
        let last_us = rewinds.iter().map(|rewind| rewind.span.to_us.unwrap_or(u64::MAX)).max();
        in_line(facts, queue, *groups, (0, first_us), found);
        if let Some(last_us) = last_us {
            in_line(facts, queue, *groups, (last_us, u64::MAX), found);
        }
    }
}

/// Checks the claims in this period.
fn in_line(facts: &Facts<'_>, queue: &str, groups: u64, (from_us, to_us): (u64, u64), found: &mut Vec<Finding>) {
    let mut lines: BTreeMap<u64, Vec<Place<'_>>> = BTreeMap::new();
    // A lost answer is repeated later. Claims with smaller numbers than a claim from before this
    // time are also from before it.
    let of_queue = facts.jobs.iter().filter(|(id, _)| subscription_of(id).unwrap_or(QUEUE) == queue);
    // The times in which a lane may have held jobs of an answer that was lost.
    let unseen = facts.unanswered_until(0);
    let earlier = of_queue.flat_map(|(_, job)| job.deliveries.values()).filter(|one| one.claimed_us < from_us).map(|one| one.claim).max();
    for (id, job) in &facts.jobs {
        if subscription_of(id).unwrap_or(QUEUE) != queue {
            continue;
        }
        let Some(place) = place(facts, id, job, (from_us, to_us), &unseen) else { continue };
        if earlier.is_none_or(|earlier| place.first.claim > earlier) {
            lines.entry(group(place.key, groups)).or_default().push(place);
        }
    }
    for (group, mut line) in lines {
        line.sort_unstable_by_key(|place| place.stored.to_us);
        let overtaken = line.iter().enumerate().find_map(|(at, later)| {
            // Jobs that were surely stored before it.
            let earlier = line[..at].iter().filter(|earlier| earlier.stored.to_us.is_some_and(|to| to < later.stored.from_us));
            earlier.filter(|earlier| !is_over(earlier, later, to_us)).map(|earlier| (earlier, later)).next()
        });
        if let Some((earlier, later)) = overtaken {
            let (claim, last) = (later.first.claim, earlier.last.claim);
            let what = format!(
                "got claim {claim} before {} of the same group {group} had ended, which came before it and had claim {last}",
                earlier.id
            );
            broken(found, Invariant::Lines, later.id, what);
        }
    }
}

fn place<'a>(
    facts: &'a Facts<'_>,
    id: &'a str,
    job: &'a Job<'_>,
    (from_us, to_us): (u64, u64),
    unseen: &[(u64, u64)],
) -> Option<Place<'a>> {
    // If an event was published twice, the first entry may have been trimmed before the
    // subscription began.
    let enqueue = facts
        .enqueue_of(job)
        .filter(|enqueue| enqueue.fate == Fate::Happened && enqueue.delay_ms == 0 && facts.entries_of(enqueue.key) <= 1)?;
    // A job that an operator has removed or requeued has no fixed position. A job that had begun
    // before a rewind has kept its position.
    let was_touched = !job.requeues.is_empty() || !job.cancels.is_empty() || !job.deletes.is_empty();
    let may_run_since = |one: &Delivery<'_>, us: u64| one.accepted().and_then(|finish| finish.span.to_us).is_none_or(|to| to >= us);
    let given = |one: &Delivery<'_>| one.given_by_ms(facts.terms).saturating_mul(1000);
    let had_begun =
        job.rewinds.iter().any(|(span, _)| job.deliveries.values().any(|one| given(one) < from_us && may_run_since(one, span.from_us)));
    if was_touched || had_begun {
        return None;
    }
    let mut claims = job.deliveries.values().filter(|one| (from_us..to_us).contains(&one.claimed_us));
    // A claim that its worker could not record may also be from before the rewind, with a reclaim
    // after it.
    let taken_back = |first: &Delivery<'_>, span: Span| {
        let ended_us = span.to_us.unwrap_or(u64::MAX);
        first.crashes > 0 || unseen.iter().any(|(since, until)| *since <= ended_us && *until >= span.from_us && *since < first.claimed_us)
    };
    let first = claims.next().filter(|first| !job.rewinds.iter().any(|(span, _)| taken_back(first, *span)))?;
    Some(Place { id, key: job.key?, stored: enqueue.span, first, last: claims.next_back().unwrap_or(first) })
}

/// Whether one had ended when the next began.
fn is_over(earlier: &Place<'_>, later: &Place<'_>, to_us: u64) -> bool {
    let ended =
        earlier.last.accepted().is_none_or(|finish| finish.span.from_us <= later.first.claimed_us || later.first.claimed_us >= to_us);
    earlier.last.claim < later.first.claim && ended
}
