//! The final places of jobs: I3, I19, I24.

use std::collections::BTreeSet;

use super::{
    Invariant,
    facts::{Facts, Fate, Finding, broken},
};
use crate::history::Ending;

pub(super) fn check(facts: &Facts<'_>, found: &mut Vec<Finding>) {
    one_place(facts, found);
    dead_letters(facts, found);
    nothing_stuck(facts, found);
}

/// I3: each id is listed once, under the state in its record.
fn one_place(facts: &Facts<'_>, found: &mut Vec<Finding>) {
    for (id, job) in &facts.jobs {
        if job.held.len() > 1 {
            let states: Vec<_> = job.held.iter().map(|held| held.state.as_str()).collect();
            broken(found, Invariant::OnePlace, id, format!("is listed under {}", states.join(" and ")));
        }
        if let Some(held) = job.held.iter().find(|held| held.state != held.shown) {
            broken(found, Invariant::OnePlace, id, format!("is listed as {} and shown as {}", held.state, held.shown));
        }
    }
}

/// I19: a dead job exists, with its payload and the reason, unless an operator removed it.
fn dead_letters(facts: &Facts<'_>, found: &mut Vec<Finding>) {
    for (id, job) in &facts.jobs {
        if let Some(dead) = job.held.iter().find(|held| held.state == "dead") {
            if dead.reason.is_none() {
                broken(found, Invariant::DeadLetters, id, "is dead without a reason");
            }
            if dead.digest.is_none() {
                broken(found, Invariant::DeadLetters, id, "is dead without its payload");
            }
        }
        let buried = job.deliveries.values().filter_map(|delivery| delivery.accepted());
        let buried = buried.filter(|finish| matches!(finish.ending, Ending::Bury { .. })).count();
        let taken = job.revivals().count() + job.deletes.iter().filter(|(_, fate)| *fate != Fate::Refused).count();
        let there = job.held.iter().any(|held| held.state == "dead");
        let evicted = facts.snapshot.counters.get("dead_evicted").is_some_and(|evicted| *evicted > 0);
        if buried > taken && !there && !evicted {
            broken(found, Invariant::DeadLetters, id, "was buried and cannot be read");
        }
    }
}

/// I24: no job is held by a missing lane or a long-expired one, and no job with a known task is
/// parked.
fn nothing_stuck(facts: &Facts<'_>, found: &mut Vec<Finding>) {
    let patience_ms = i64::try_from(facts.terms.lease_ms * 2 / 5).unwrap_or(i64::MAX);
    let now_ms = u64::try_from(facts.snapshot.at_ms).unwrap_or(0);
    let known: BTreeSet<&str> = facts
        .processes
        .values()
        .filter(|process| process.lives.last().is_some_and(|(_, end, _)| end.is_none_or(|end| end / 1000 > now_ms)))
        .flat_map(|process| process.tasks.iter().map(String::as_str))
        .collect();
    for (id, job) in &facts.jobs {
        for held in &job.held {
            if held.state == "active" {
                let lane = facts.snapshot.lanes.iter().find(|lane| Some(&lane.name) == held.lane.as_ref());
                match lane {
                    None => broken(found, Invariant::NothingStuck, id, "is held by a lane that nobody knows"),
                    Some(lane) if lane.deadline_ms + patience_ms < facts.snapshot.at_ms => {
                        broken(found, Invariant::NothingStuck, id, "is held by a lane whose lease has long ended");
                    }
                    Some(_) => {}
                }
            }
            if let Some(task) = held.task.as_deref().filter(|task| held.state == "parked" && known.contains(task)) {
                broken(found, Invariant::NothingStuck, id, format!("is parked, and a worker knows its task {task}"));
            }
        }
    }
}
