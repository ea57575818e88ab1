//! A group with work and room is served within its bound, whoever dies: I15.
//!
//! It is said of times at which a group surely has work and room. Work is a job that was stored and
//! is claimed later, and that nobody can have held in between: no process was killed while it had
//! asked for jobs and had not written down what it got. Room is a slot that no job can hold: a run
//! holds its slot until its ending was answered or the job is given to the next, or for good.

use std::collections::BTreeMap;

use super::{
    Invariant,
    facts::{About, Delivery, Facts, Fate, Finding, Job},
};
use crate::{history::subscription_of, process::group};

/// So often at most another group of the same weight is served before: once in rotation, once for a
/// turn that was begun, and once for the one with which it ends.
const BOUND: u64 = 3;

/// So long what a dead process held may be held beyond its lease: two looks of a reclaimer, and
/// time to take it back, in milliseconds.
const TAKEN_BACK_MS: u64 = 20_000;

pub(super) fn check(facts: &Facts<'_>, found: &mut Vec<Finding>) {
    let Some((groups, cap)) = facts.terms.groups else { return };
    if !facts.terms.turns || facts.terms.clock_moves || facts.terms.volatile {
        return;
    }
    let lost = facts.unanswered_ms();
    let is_known = |ms: u64| !lost.iter().any(|from| (*from..from + facts.terms.lease_ms + TAKEN_BACK_MS).contains(&ms));
    let given = Given::of(facts);
    let (mut work, mut held): (Spans, Spans) = (BTreeMap::new(), BTreeMap::new());
    // The jobs of each turn by their groups. Suspects go before the others, and are no turns.
    let mut turns: BTreeMap<(u64, u64), BTreeMap<u64, u64>> = BTreeMap::new();
    for (_, job) in facts.jobs.iter().filter(|(id, _)| subscription_of(id).is_none()) {
        let Some(of) = job.key.map(|key| group(key, groups)) else { continue };
        if let Some(span) = waits(facts, job, &given) {
            work.entry(of).or_default().push(span);
        }
        held.entry(of).or_default().extend(holds(job, &given));
        for delivery in job.deliveries.values() {
            let turn = turns.entry((delivery.claim, given.ms(delivery))).or_default().entry(of).or_default();
            *turn += u64::from(delivery.crashes == 0);
        }
    }
    // How often each other group was served since a group has work and room, and was not served.
    let mut passed: BTreeMap<(u64, u64), u64> = BTreeMap::new();
    for ((_, at), served) in turns {
        for of in 0..groups {
            let in_it = |spans: &Spans| spans.get(&of).into_iter().flatten().filter(|(from, to)| *from < at && at < *to).count();
            // A job that ends or is stored in this millisecond may be either.
            let may = is_known(at) && in_it(&work) > 0 && touching(&held, of, at) < cap;
            for other in (0..groups).filter(|other| *other != of) {
                let times = passed.entry((of, other)).or_default();
                if !may || served.contains_key(&of) {
                    *times = 0;
                    continue;
                }
                *times += served.get(&other).copied().unwrap_or(0);
                if *times > BOUND {
                    let what = format!(
                        "group {of} has work and room, and group {other} was served {times} times before it, up to {at} ms after 1970; {BOUND} times is the bound"
                    );
                    found.push(Finding { invariant: Invariant::Limits, about: About::Nothing, what });
                    return;
                }
            }
        }
    }
}

/// Of each group times in milliseconds.
type Spans = BTreeMap<u64, Vec<(u64, u64)>>;

fn touching(spans: &Spans, of: u64, at: u64) -> usize {
    spans.get(&of).into_iter().flatten().filter(|(from, to)| *from <= at && at <= *to).count()
}

/// When each claim was made at the latest, by its number. A turn whose answer was lost is answered
/// again, and tells the time of that; claims are numbered in their order, so each was made before
/// those with larger numbers.
struct Given(BTreeMap<u64, u64>);

impl Given {
    fn of(facts: &Facts<'_>) -> Given {
        let mut given = BTreeMap::new();
        let of_queue = facts.jobs.iter().filter(|(id, _)| subscription_of(id).is_none());
        for delivery in of_queue.flat_map(|(_, job)| job.deliveries.values()) {
            given.insert(delivery.claim, u64::try_from(delivery.at_ms).unwrap_or(0));
        }
        let mut latest = u64::MAX;
        for at in given.values_mut().rev() {
            latest = latest.min(*at);
            *at = latest;
        }
        Given(given)
    }

    fn ms(&self, delivery: &Delivery<'_>) -> u64 {
        self.0.get(&delivery.claim).copied().unwrap_or(0)
    }
}

/// While a job surely waited for its first start.
fn waits(facts: &Facts<'_>, job: &Job<'_>, given: &Given) -> Option<(u64, u64)> {
    let (enqueue, first) = (facts.enqueue_of(job)?, job.deliveries.values().next()?);
    let was_touched = !job.cancels.is_empty() || !job.requeues.is_empty() || !job.deletes.is_empty();
    let is_plain = enqueue.fate == Fate::Happened && enqueue.delay_ms == 0 && enqueue.unique.is_none() && !enqueue.existing;
    if was_touched || !is_plain || first.crashes > 0 || first.attempts > 0 {
        return None;
    }
    Some((enqueue.span.to_us? / 1000 + 1, given.ms(first)))
}

/// While a job may have held a slot.
fn holds(job: &Job<'_>, given: &Given) -> Vec<(u64, u64)> {
    let deliveries: Vec<&Delivery<'_>> = job.deliveries.values().collect();
    let until = |(n, delivery): (usize, &&Delivery<'_>)| {
        let next = deliveries.get(n + 1).map_or(u64::MAX, |next| given.ms(next));
        let cancels = job.cancels.iter().filter(|(_, fate)| *fate == Fate::Happened).filter_map(|(span, _)| span.to_us);
        let cancelled = cancels.filter(|us| *us >= delivery.claimed_us).min();
        let answered = delivery.accepted().and_then(|finish| finish.span.to_us);
        (given.ms(delivery), answered.into_iter().chain(cancelled).map(|us| us / 1000 + 1).min().unwrap_or(next))
    };
    deliveries.iter().enumerate().map(until).collect()
}
