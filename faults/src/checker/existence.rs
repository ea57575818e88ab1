//! What was enqueued is what there is: I1, I2, I16, I20, I23.

use std::collections::{BTreeMap, BTreeSet};

use super::{
    Invariant,
    facts::{About, Facts, Fate, Finding, Job, broken},
};
use crate::history::Ending;

pub(super) fn check(facts: &Facts<'_>, found: &mut Vec<Finding>) {
    no_loss(facts, found);
    no_ghosts(facts, found);
    idempotent(facts, found);
    payloads(facts, found);
    refusals(facts, found);
}

/// I1: every accepted job is done, there, or was taken away.
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

/// Whether a job may have left the broker for good.
fn may_have_ended(job: &Job<'_>) -> bool {
    let acked = |ending: Ending| matches!(ending, Ending::Ack | Ending::Cancel | Ending::Expire);
    let finished = job.deliveries.values().flat_map(|delivery| delivery.possible()).any(|finish| acked(finish.ending));
    // What was buried must be readable: that is for I19 to judge.
    let buried = |ending: Ending| matches!(ending, Ending::Bury { .. });
    let buried = job.deliveries.values().filter_map(|delivery| delivery.accepted()).any(|finish| buried(finish.ending));
    finished || buried || job.cancels.iter().chain(&job.deletes).any(|(_, fate)| *fate != Fate::Refused)
}

/// I2: nothing starts that was not enqueued and delivered.
fn no_ghosts(facts: &Facts<'_>, found: &mut Vec<Finding>) {
    for (id, job) in &facts.jobs {
        let enqueued = job.key.is_some_and(|key| facts.enqueues.contains_key(&key)) || facts.ticks.contains_key(id);
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
    for (id, job) in &facts.jobs {
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

/// I20: the payload is the one that was enqueued.
fn payloads(facts: &Facts<'_>, found: &mut Vec<Finding>) {
    for (id, job) in &facts.jobs {
        let Some(enqueue) = facts.enqueue_of(job) else { continue };
        let held = job.held.iter().filter_map(|held| held.digest);
        if job.start_digests.iter().copied().chain(held).any(|digest| digest != enqueue.digest) {
            broken(found, Invariant::PayloadKept, id, "its payload is not the one that was enqueued");
        }
    }
}

/// I23: what was refused is nowhere.
fn refusals(facts: &Facts<'_>, found: &mut Vec<Finding>) {
    let traces: BTreeMap<u64, &str> = facts
        .jobs
        .iter()
        .filter(|(_, job)| !job.held.is_empty() || !job.deliveries.is_empty())
        .filter_map(|(id, job)| Some((job.key?, *id)))
        .collect();
    for (key, enqueues) in &facts.enqueues {
        let refused = enqueues.iter().all(|enqueue| enqueue.fate == Fate::Refused);
        if let Some(id) = traces.get(key).filter(|_| refused) {
            broken(found, Invariant::CleanRefusal, id, "its enqueue was refused, and it is there");
        }
    }
}
