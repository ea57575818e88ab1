//! I15: the number of running jobs of a group is at most its cap, and no slot outlives its job.

use std::collections::BTreeMap;

use super::{
    Invariant,
    facts::{About, Delivery, Facts, Finding},
};
use crate::{history::subscription_of, process::group};

pub(super) fn check(facts: &Facts<'_>, found: &mut Vec<Finding>) {
    leaks(facts, found);
    let Some((groups, cap)) = facts.terms.groups else { return };
    if !facts.caps.is_empty() {
        return changing(facts, groups, cap, found);
    }
    // A delivery surely held its slot from the answer to its claim until its accepted finish was
    // sent.
    let mut changes: BTreeMap<u64, Vec<(u64, i64)>> = BTreeMap::new();
    for (_, job) in facts.jobs.iter().filter(|(id, _)| subscription_of(id).is_none()) {
        let Some(key) = job.key else { continue };
        for delivery in job.deliveries.values() {
            let Some(finish) = delivery.accepted().filter(|finish| finish.span.from_us > delivery.claimed_us) else { continue };
            let of = changes.entry(group(key, groups)).or_default();
            of.extend([(delivery.claimed_us, 1), (finish.span.from_us, -1)]);
        }
    }
    for (group, mut changes) in changes {
        // At the same time, ends come first.
        changes.sort_unstable();
        let mut running = 0;
        for (at, change) in changes {
            running += change;
            if running > i64::try_from(cap).unwrap_or(i64::MAX) {
                let what = format!("{running} jobs of group {group} ran at once, {at} us after 1970, and {cap} may");
                found.push(Finding { invariant: Invariant::Limits, about: About::Nothing, what });
                break;
            }
        }
    }
}

/// The same while an operator changes the cap. No job is claimed while as many jobs run as the
/// largest possible cap allows. Running jobs continue.
fn changing(facts: &Facts<'_>, groups: u64, first: usize, found: &mut Vec<Finding>) {
    let mut of_groups: BTreeMap<u64, Vec<&Delivery<'_>>> = BTreeMap::new();
    for (_, job) in facts.jobs.iter().filter(|(id, _)| subscription_of(id).is_none()) {
        let Some(key) = job.key else { continue };
        of_groups.entry(group(key, groups)).or_default().extend(job.deliveries.values());
    }
    // A cap may apply from its request until the next one was answered.
    let begins = std::iter::once(0).chain(facts.caps.iter().map(|(span, _)| span.from_us / 1000));
    let ends = facts.caps.iter().map(|(span, _)| span.to_us.map_or(u64::MAX, |us| us / 1000 + 1)).chain([u64::MAX]);
    let caps = std::iter::once(first).chain(facts.caps.iter().map(|(_, cap)| *cap));
    let in_effect: Vec<(u64, u64, usize)> = begins.zip(ends).zip(caps).map(|((from, to), cap)| (from, to, cap)).collect();
    for (group, deliveries) in of_groups {
        for claimed in &deliveries {
            let at = claimed.given_ms(facts.terms);
            let most = in_effect.iter().filter(|(from, to, _)| *from <= at && at <= *to).map(|(.., cap)| *cap).max().unwrap_or(first);
            let runs = |other: &&&Delivery<'_>| {
                let is_held = other.accepted().is_some_and(|finish| finish.span.from_us / 1000 > at);
                !std::ptr::eq(**other, *claimed) && other.claim < claimed.claim && other.claimed_us.div_ceil(1000) < at && is_held
            };
            let running = 1 + deliveries.iter().filter(runs).count();
            if running > most {
                let what =
                    format!("{running} jobs of group {group} ran at once with claim {}, {at} ms after 1970, and {most} may", claimed.claim);
                found.push(Finding { invariant: Invariant::Limits, about: About::Nothing, what });
                break;
            }
        }
    }
}

fn leaks(facts: &Facts<'_>, found: &mut Vec<Finding>) {
    let active = facts.snapshot.jobs.iter().filter(|job| job.state == "active").count() as u64;
    if facts.snapshot.slots > active {
        let what = format!("groups hold {} slots in the end, and {active} jobs run", facts.snapshot.slots);
        found.push(Finding { invariant: Invariant::Limits, about: About::Nothing, what });
    }
}
