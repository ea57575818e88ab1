//! I15: a group with work and room is served within its bound, even if processes crash.
//!
//! This is checked at times at which a group surely has work and room. Work is a stored job that is
//! claimed later and that no process can have held in between: no process was killed after it had
//! requested jobs and before it had recorded the answer. Room is a slot that no job can hold: a run
//! holds its slot until its ending was answered, or the job was claimed again, or permanently.

use std::collections::BTreeMap;

use super::{
    Invariant,
    facts::{About, Delivery, Facts, Fate, Finding, Job},
};
use crate::{history::subscription_of, process::group};

/// The maximum number of times that another group of the same weight is served before: once in
/// rotation, once for a turn that had begun, and once for the turn with which it ends.
const BOUND: u64 = 3;

/// The maximum time, in milliseconds, for which jobs of a crashed process are held after its lease:
/// two checks of a reclaimer, and the time of the reclaim.
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
    // The jobs of each turn by their groups. Suspects come before the others, and do not count as
    // turns.
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
    // The number of times that each other group was served while a group had work and room and was
    // not served.
    let mut passed: BTreeMap<(u64, u64), u64> = BTreeMap::new();
    for ((_, at), served) in turns {
        for of in 0..groups {
            let in_it = |spans: &Spans| spans.get(&of).into_iter().flatten().filter(|(from, to)| *from < at && at < *to).count();
            // A job that ends or is stored in this millisecond counts in both ways.
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

/// Periods of each group, in milliseconds.
type Spans = BTreeMap<u64, Vec<(u64, u64)>>;

fn touching(spans: &Spans, of: u64, at: u64) -> usize {
    spans.get(&of).into_iter().flatten().filter(|(from, to)| *from <= at && at <= *to).count()
}

/// The latest possible time of each claim, by its number. The answer to a replay has the time of
/// the replay. Claims are numbered in their order, so each was made before those with larger
/// numbers.
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

/// The period in which a job surely waited for its first start.
fn waits(facts: &Facts<'_>, job: &Job<'_>, given: &Given) -> Option<(u64, u64)> {
    let (enqueue, first) = (facts.enqueue_of(job)?, job.deliveries.values().next()?);
    let was_touched = !job.cancels.is_empty() || !job.requeues.is_empty() || !job.deletes.is_empty();
    let is_plain = enqueue.fate == Fate::Happened && enqueue.delay_ms == 0 && enqueue.unique.is_none() && !enqueue.existing;
    if was_touched || !is_plain || first.crashes > 0 || first.attempts > 0 {
        return None;
    }
    Some((enqueue.span.to_us? / 1000 + 1, given.ms(first)))
}

/// The periods in which a job may have held a slot.
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
