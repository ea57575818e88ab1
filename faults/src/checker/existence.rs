//! The enqueued jobs are the existing jobs: I1, I2, I16, I20, I23.

use std::collections::{BTreeMap, BTreeSet};

use super::{
    Invariant,
    facts::{About, Facts, Fate, Finding, Job, broken},
};
use crate::history::{Ending, subscription_of};

pub(super) fn check(facts: &Facts<'_>, found: &mut Vec<Finding>) {
    no_loss(facts, found);
    no_ghosts(facts, found);
    idempotent(facts, found);
    payloads(facts, found);
    refusals(facts, found);
}

/// I1: every accepted job is done, exists, or was removed.
fn no_loss(facts: &Facts<'_>, found: &mut Vec<Finding>) {
    let accepted = facts.enqueues.values().flatten().filter(|enqueue| enqueue.fate == Fate::Happened && !enqueue.existing);
    for id in accepted.filter_map(|enqueue| enqueue.id) {
        let job = &facts.jobs[id];
        if job.held.is_empty() && !may_have_ended(job) {
            broken(found, Invariant::NoLoss, id, "was accepted, has not ended, and is nowhere");
        }
    }
    for (id, ticks) in &facts.ticks {
        let gone = facts.jobs.get(id).is_none_or(|job| job.held.is_empty() && !may_have_ended(job));
        if gone && ticks.iter().any(|tick| tick.fate == Fate::Happened) {
            broken(found, Invariant::NoLoss, id, "was made by a tick, has not ended, and is nowhere");
        }
    }
}

/// Whether a job may have left the broker permanently.
pub(super) fn may_have_ended(job: &Job<'_>) -> bool {
    let acked = |ending: Ending| matches!(ending, Ending::Ack | Ending::Cancel | Ending::Expire);
    let finished = job.deliveries.values().flat_map(|delivery| delivery.possible()).any(|finish| acked(finish.ending));
    // A buried job must be readable, which I19 checks.
    let buried = |ending: Ending| matches!(ending, Ending::Bury { .. });
    let buried = job.deliveries.values().filter_map(|delivery| delivery.accepted()).any(|finish| buried(finish.ending));
    finished || buried || job.cancels.iter().chain(&job.deletes).any(|(_, fate)| *fate != Fate::Refused)
}

/// I2: a job that starts was enqueued and delivered.
fn no_ghosts(facts: &Facts<'_>, found: &mut Vec<Finding>) {
    for (id, job) in &facts.jobs {
        let enqueued = facts.enqueue_of(job).is_some() || facts.ticks.contains_key(id);
        if !job.start_digests.is_empty() && !enqueued {
            broken(found, Invariant::NoGhosts, id, "started, and nobody enqueued it");
        }
        if !job.stray_starts.is_empty() {
            broken(found, Invariant::NoGhosts, id, "started without a delivery");
        }
    }
}

/// I16: one key, one job; another payload under a given id is a conflict.
fn idempotent(facts: &Facts<'_>, found: &mut Vec<Finding>) {
    let mut ids: BTreeMap<u64, BTreeSet<&str>> = BTreeMap::new();
    // An event is one job in each subscription with the same name.
    for (id, job) in facts.jobs.iter().filter(|(id, _)| subscription_of(id).is_none()) {
        let alive = !job.held.is_empty() || !job.deliveries.is_empty();
        if let Some(key) = job.key.filter(|_| alive) {
            ids.entry(key).or_default().insert(id);
        }
    }
    for (key, ids) in ids.into_iter().filter(|(_, ids)| ids.len() > 1) {
        let what = format!("enqueue {key} made several jobs: {}", ids.into_iter().collect::<Vec<_>>().join(", "));
        found.push(Finding { invariant: Invariant::IdempotentEnqueue, about: About::Key(key), what });
    }
    let mut stored: BTreeMap<&str, u64> = BTreeMap::new();
    let mut times: BTreeMap<&str, usize> = BTreeMap::new();
    for enqueue in facts.enqueues.values().flatten().filter(|enqueue| enqueue.fate == Fate::Happened) {
        let Some(id) = enqueue.id else { continue };
        *times.entry(id).or_default() += usize::from(!enqueue.existing);
        let first = *stored.entry(id).or_insert(enqueue.digest);
        if first != enqueue.digest {
            broken(found, Invariant::IdempotentEnqueue, id, "was accepted again with another payload");
        }
    }
    for (id, times) in times.into_iter().filter(|(_, times)| *times > 1) {
        let freed = facts.jobs[id].cancels.iter().chain(&facts.jobs[id].deletes).filter(|(_, fate)| *fate != Fate::Refused).count();
        if times > freed + 1 {
            broken(found, Invariant::IdempotentEnqueue, id, format!("was stored {times} times"));
        }
    }
}

/// I20: the payload is the enqueued one.
fn payloads(facts: &Facts<'_>, found: &mut Vec<Finding>) {
    for (id, job) in &facts.jobs {
        let Some(enqueue) = facts.enqueue_of(job) else { continue };
        let is_given = |digest: u64| {
            let edited = job.edits.iter().filter(|(_, fate, _)| *fate != Fate::Refused).any(|(.., edited)| *edited == digest);
            digest == enqueue.digest || edited
        };
        let mut seen = job.start_digests.iter().map(|(_, digest)| *digest).chain(job.held.iter().filter_map(|held| held.digest));
        if seen.any(|digest| !is_given(digest)) {
            broken(
                found,
                Invariant::PayloadKept,
                id,
                "its payload is neither the one that was enqueued nor one that a person has given it",
            );
        }
        for (span, _, edited) in job.edits.iter().filter(|(_, fate, _)| *fate == Fate::Happened) {
            // Only a waiting job is edited. An earlier claim has the old payload, and a later one
            // has the new payload.
            let Some(done) = span.to_us else { continue };
            let claimed_after = |claim: u64| job.deliveries.get(&claim).is_some_and(|one| one.given_ms(facts.terms) > done / 1000 + 1);
            let held = job.held.iter().filter_map(|held| held.digest).any(|digest| digest != *edited);
            let ran = job.start_digests.iter().any(|(claim, digest)| digest != edited && claimed_after(*claim));
            if held || ran {
                broken(found, Invariant::PayloadKept, id, "it was edited, and has its old payload");
            }
        }
    }
}

/// I23: a refused enqueue leaves no trace.
fn refusals(facts: &Facts<'_>, found: &mut Vec<Finding>) {
    let traces: BTreeMap<u64, &str> = facts
        .jobs
        .iter()
        .filter(|(_, job)| !job.held.is_empty() || !job.deliveries.is_empty())
        .filter_map(|(id, job)| Some((job.key?, *id)))
        .collect();
    for (key, enqueues) in facts.enqueues.iter().chain(&facts.publishes) {
        let refused = enqueues.iter().all(|enqueue| enqueue.fate == Fate::Refused);
        if let Some(id) = traces.get(key).filter(|_| refused) {
            broken(found, Invariant::CleanRefusal, id, "its enqueue was refused, and it is there");
        }
    }
}
