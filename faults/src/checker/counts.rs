//! Counters and kept results: I8, I17, I21, I22.

use super::{
    Invariant,
    facts::{About, Facts, Fate, Finding, Job, broken},
    topics,
};
use crate::history::{Ending, Wish};

pub(super) fn check(facts: &Facts<'_>, found: &mut Vec<Finding>) {
    for (id, job) in &facts.jobs {
        attempts(facts, id, job, found);
        result(id, job, found);
        isolation(facts, id, job, found);
    }
    accounting(facts, found);
}

/// I8: the counters in a delivery agree with its past, and the limits are kept.
fn attempts(facts: &Facts<'_>, id: &str, job: &Job<'_>, found: &mut Vec<Finding>) {
    let max_attempts = facts.enqueue_of(job).map_or(u32::MAX, |enqueue| enqueue.max_attempts);
    let requeued = job.revivals().next().is_some();
    // Sure and possible failures, and possible crashes, before this delivery.
    let (mut sure, mut possible, mut lost) = (0, 0, 0);
    let (mut since_us, mut before) = (0, 0);
    for delivery in job.deliveries.values() {
        let (claim, attempts, crashes) = (delivery.claim, delivery.attempts, delivery.crashes);
        if attempts > possible || (attempts < sure && !requeued) {
            broken(found, Invariant::Attempts, id, format!("claim {claim} came with {attempts} failures, after {sure} to {possible}"));
        } else if attempts >= max_attempts {
            broken(found, Invariant::Attempts, id, format!("claim {claim} came after {attempts} failures, of at most {max_attempts}"));
        }
        if crashes > lost {
            // A crashed process may not have recorded its deliveries.
            lost = lost.max(u32::try_from(facts.fenced_between(since_us, delivery.claimed_us)).unwrap_or(u32::MAX) + before);
        }
        if crashes > lost {
            broken(found, Invariant::Attempts, id, format!("claim {claim} came with {crashes} crashes, after {lost} lost leases"));
        } else if crashes >= facts.terms.max_crashes {
            broken(found, Invariant::Attempts, id, format!("claim {claim} came after {crashes} crashes"));
        }
        since_us = delivery.claimed_us;
        before = lost;
        lost += u32::from(facts.fenced_since(delivery.lane).is_some());
        let nacked = |finish: &super::facts::Finish| matches!(finish.ending, Ending::Nack { .. });
        possible += u32::from(delivery.possible().any(nacked));
        sure += u32::from(delivery.accepted().is_some_and(nacked));
        if delivery.possible().any(|finish| matches!(finish.ending, Ending::Repeat { .. })) {
            // A new round starts new counts, if it has begun.
            sure = 0;
            possible = if delivery.accepted().is_some() { 0 } else { possible };
        }
    }
    let Some(dead) = job.held.iter().find(|held| held.state == "dead") else { return };
    match dead.reason.as_deref() {
        Some("failed") if dead.attempts < max_attempts => {
            broken(found, Invariant::Attempts, id, format!("died of {} failures, where {max_attempts} are allowed", dead.attempts));
        }
        Some("crashed") if dead.crashes < facts.terms.max_crashes => {
            broken(
                found,
                Invariant::Attempts,
                id,
                format!("died of {} crashes, where {} are allowed", dead.crashes, facts.terms.max_crashes),
            );
        }
        _ => {}
    }
}

/// I17: a kept result names the claim that was acknowledged.
fn result(id: &str, job: &Job<'_>, found: &mut Vec<Finding>) {
    for claim in job.held.iter().filter(|held| held.state == "done").filter_map(|held| held.result) {
        let acked = job.deliveries.get(&claim).is_some_and(|delivery| delivery.possible().any(|finish| finish.ending == Ending::Ack));
        if !acked {
            broken(found, Invariant::ResultBinding, id, format!("its result is that of claim {claim}, whose ack did not count"));
        }
    }
}

/// I22: other jobs never make a job that can succeed a dead letter. If its processes
/// were killed as often as a job may crash, it cannot be distinguished from a job that kills them.
fn isolation(facts: &Facts<'_>, id: &str, job: &Job<'_>, found: &mut Vec<Finding>) {
    let innocent = facts.enqueue_of(job).is_some_and(|enqueue| enqueue.wish == Wish::Done);
    let is_explained = |reason: Option<&str>| reason == Some("crashed") && facts.kills_under(job) >= facts.terms.max_crashes as usize;
    let dead = job.held.iter().find(|held| held.state == "dead").filter(|dead| innocent && !is_explained(dead.reason.as_deref()));
    if let Some(dead) = dead {
        broken(
            found,
            Invariant::Isolation,
            id,
            format!("it could be done, and died: {}", dead.reason.as_deref().unwrap_or("nobody knows why")),
        );
    }
}

/// I21: the counters are the sum of the events, within the unknown ones.
fn accounting(facts: &Facts<'_>, found: &mut Vec<Finding>) {
    let mut judge = |name: &str, sure: usize, possible: usize| {
        let counted = facts.snapshot.counters.get(name).copied().unwrap_or(0);
        if counted < sure as u64 || counted > possible as u64 {
            let what = format!("counter `{name}` is {counted}, and it happened {sure} to {possible} times");
            found.push(Finding { invariant: Invariant::Accounting, about: About::Nothing, what });
        }
    };
    let fed = topics::fed(facts);
    let enqueues = || facts.enqueues.values().flatten().filter(|enqueue| !enqueue.existing);
    let ticks = |fits: fn(Fate) -> bool| facts.ticks.values().flatten().filter(|tick| fits(tick.fate)).count();
    let sure = enqueues().filter(|enqueue| enqueue.fate == Fate::Happened).count() + ticks(|fate| fate == Fate::Happened);
    let possible = enqueues().filter(|enqueue| enqueue.fate != Fate::Refused).count() + ticks(|fate| fate != Fate::Refused);
    judge("enqueued", sure + fed.start(), possible + fed.end());
    let finishes = |wanted: fn(Ending) -> bool| {
        let deliveries = || facts.jobs.values().flat_map(|job| job.deliveries.values());
        let sure = deliveries().filter(|delivery| delivery.accepted().is_some_and(|finish| wanted(finish.ending))).count();
        (sure, deliveries().filter(|delivery| delivery.possible().any(|finish| wanted(finish.ending))).count())
    };
    let (sure, possible) = finishes(|ending| ending == Ending::Ack);
    judge("done", sure, possible);
    let (sure, possible) = finishes(|ending| matches!(ending, Ending::Nack { .. } | Ending::Bury { failed: true }));
    judge("failed", sure, possible);
    let (sure, possible) = finishes(|ending| matches!(ending, Ending::Snooze { .. }));
    judge("snoozed", sure, possible);
}
