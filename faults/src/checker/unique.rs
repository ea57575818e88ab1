//! I12: at most one job holds a unique key.

use std::collections::BTreeMap;

use super::{
    Invariant,
    facts::{Enqueued, Facts, Fate, Finding, Job, broken},
};

pub(super) fn check(facts: &Facts<'_>, found: &mut Vec<Finding>) {
    one_holder(facts, found);
    no_leak(facts, found);
}

/// No job was stored while another job with its key had surely not ended: the other one ran before
/// and after that, or existed all the time.
fn one_holder(facts: &Facts<'_>, found: &mut Vec<Finding>) {
    let mut of_keys: BTreeMap<u64, Vec<&Enqueued<'_>>> = BTreeMap::new();
    for enqueue in facts.enqueues.values().flatten().filter(|enqueue| enqueue.fate == Fate::Happened && !enqueue.existing) {
        if let Some(unique) = enqueue.unique {
            of_keys.entry(unique).or_default().push(enqueue);
        }
    }
    for (unique, enqueues) in of_keys {
        for older in &enqueues {
            let (Some(id), Some(stored)) = (older.id, older.span.to_us) else { continue };
            let Some(alive) = alive_until(facts, &facts.jobs[id]) else { continue };
            let during = |other: &&&Enqueued<'_>| other.span.from_us > stored && other.span.to_us.is_some_and(|to| to < alive);
            if let Some(younger) = enqueues.iter().find(during).and_then(|younger| younger.id) {
                broken(found, Invariant::Unique, id, format!("held key {unique} when job {younger} of the same key was stored"));
            }
        }
    }
}

/// The time until which a job had surely not ended. `None` if that is unknown.
fn alive_until(facts: &Facts<'_>, job: &Job<'_>) -> Option<u64> {
    if job.held.iter().any(|held| !matches!(held.state.as_str(), "done" | "dead" | "cancelled" | "expired")) {
        return Some(u64::MAX);
    }
    if job.requeues.iter().any(|(_, fate)| *fate != Fate::Refused) || facts.terms.volatile {
        return None;
    }
    // A job is alive when it is claimed, and when an accepted finish is sent.
    let claims = job.deliveries.values().map(|delivery| delivery.claimed_us);
    let finishes = job.deliveries.values().filter_map(|delivery| delivery.accepted()).map(|finish| finish.span.from_us);
    // A claim is recorded when its answer arrives. In the meantime, the job may have been
    // cancelled, and another one may have been stored.
    let cancelled = job.cancels.iter().chain(&job.deletes).filter(|(_, fate)| *fate != Fate::Refused).map(|(span, _)| span.from_us).min();
    let last = claims.chain(finishes).max()?;
    Some(cancelled.map_or(last, |cancelled| cancelled.min(last)))
}

/// At the end, no key is held by an ended or missing job.
fn no_leak(facts: &Facts<'_>, found: &mut Vec<Finding>) {
    for key in &facts.snapshot.keys {
        let is_alive = |state: &str| !matches!(state, "done" | "dead" | "cancelled" | "expired" | "nowhere");
        let alive = facts.snapshot.jobs.iter().any(|held| held.id == key.id && is_alive(&held.state));
        if !alive {
            broken(found, Invariant::Unique, &key.id, format!("holds key {} in the end, and has ended", key.unique));
        }
    }
}
