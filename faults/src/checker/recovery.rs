//! Recovery: I25 to I28.

use std::collections::HashMap;

use super::{
    Invariant,
    facts::{About, Facts, Finding},
};

pub(super) fn check(facts: &Facts<'_>, found: &mut Vec<Finding>) {
    no_silent_zombie(facts, found);
    drains(facts, found);
    renewals(facts, found);
    resources(facts, found);
}

/// I25: a worker that was running when all faults ended, and still runs, renews a lease soon.
fn no_silent_zombie(facts: &Facts<'_>, found: &mut Vec<Finding>) {
    let Some(heal) = facts.heals.last().copied() else { return };
    let deadline = heal + facts.terms.resume_ms * 1000;
    for (name, process) in &facts.processes {
        let up = process.lives.iter().any(|(from, to, _)| *from <= heal && to.is_none_or(|to| to > deadline));
        let heard = facts.renewals.values().filter(|(owner, _)| owner == name);
        if up && !heard.flat_map(|(_, times)| times).any(|at| (heal..=deadline).contains(at)) {
            let what = format!("process {name} was up and said nothing within {} ms of the end of all harm", facts.terms.resume_ms);
            found.push(Finding { invariant: Invariant::NoSilentZombie, about: About::Process((*name).to_owned()), what });
        }
    }
}

/// I26: all work is done in time.
fn drains(facts: &Facts<'_>, found: &mut Vec<Finding>) {
    let what = match facts.snapshot.drained_ms {
        Some(ms) if ms <= facts.terms.drain_ms => return,
        Some(ms) => format!("it took {ms} ms until everything was done, of at most {}", facts.terms.drain_ms),
        None => {
            let left = facts.snapshot.jobs.iter().filter(|held| ["ready", "active", "scheduled", "retry"].contains(&held.state.as_str()));
            let shown: Vec<_> = left.clone().take(3).map(|held| format!("{} ({})", held.id, held.state)).collect();
            let (count, unended, ms) = (left.count(), facts.snapshot.unended, facts.terms.drain_ms);
            format!("{count} jobs were left after {ms} ms, and {unended} producers had not ended; jobs such as {}", shown.join(", "))
        }
    };
    let about = facts.snapshot.jobs.iter().find(|held| !["dead", "done", "parked"].contains(&held.state.as_str()));
    let about = about.map_or(About::Nothing, |held| About::Job(held.id.clone()));
    found.push(Finding { invariant: Invariant::Drains, about, what });
}

/// I27: a lane with jobs is renewed within half a lease. An idle lane may expire.
fn renewals(facts: &Facts<'_>, found: &mut Vec<Finding>) {
    if !facts.terms.renewals {
        return;
    }
    let mut held: HashMap<&str, Vec<(u64, u64)>> = HashMap::new();
    for delivery in facts.jobs.values().flat_map(|job| job.deliveries.values()) {
        let until = delivery.finishes.values().map(|finish| finish.span.from_us).min();
        held.entry(delivery.lane).or_default().push((delivery.claimed_us, until.unwrap_or(u64::MAX)));
    }
    for (lane, (process, times)) in &facts.renewals {
        let holds =
            |from: u64, to: u64| held.get(lane).is_some_and(|held| held.iter().any(|(since, until)| *since <= from && *until >= to));
        let gaps = times.iter().zip(times.iter().skip(1)).filter(|(one, next)| holds(**one, **next)).map(|(one, next)| next - one);
        let gap = gaps.max().unwrap_or(0);
        if gap > facts.terms.lease_ms * 1000 / 2 {
            let what = format!("lane {lane} of {process} was not renewed for {} ms", gap / 1000);
            found.push(Finding { invariant: Invariant::Renewals, about: About::Process((*process).to_owned()), what });
        }
    }
}

/// I28: the numbers of keys, connections and open files and the size of the log are as before.
fn resources(facts: &Facts<'_>, found: &mut Vec<Finding>) {
    let (base, end, slack) = (facts.snapshot.base, facts.snapshot.end, facts.terms.slack);
    let all = [
        ("keys", base.keys, end.keys, slack.keys),
        ("connections", base.connections, end.connections, slack.connections),
        ("open files", base.descriptors, end.descriptors, slack.descriptors),
        ("bytes of log", base.log_bytes, end.log_bytes, slack.log_bytes),
    ];
    for (name, base, end, slack) in all.into_iter().filter(|(_, base, end, slack)| *end > base + slack) {
        let what = format!("{end} {name} are in use, after {base} at first and {slack} allowed");
        found.push(Finding { invariant: Invariant::Resources, about: About::Nothing, what });
    }
}
