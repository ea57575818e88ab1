//! No more jobs of a group run than its cap allows, and no slot outlives its job: I15.

use std::collections::BTreeMap;

use super::{
    Invariant,
    facts::{About, Facts, Finding},
};
use crate::process::group;

pub(super) fn check(facts: &Facts<'_>, found: &mut Vec<Finding>) {
    let Some((groups, cap)) = facts.terms.groups else { return };
    // A delivery surely held its slot from the answer to its claim until the finish that counted was sent.
    let mut changes: BTreeMap<u64, Vec<(u64, i64)>> = BTreeMap::new();
    for job in facts.jobs.values() {
        let Some(key) = job.key else { continue };
        for delivery in job.deliveries.values() {
            let Some(finish) = delivery.accepted().filter(|finish| finish.span.from_us > delivery.claimed_us) else { continue };
            let of = changes.entry(group(key, groups)).or_default();
            of.extend([(delivery.claimed_us, 1), (finish.span.from_us, -1)]);
        }
    }
    for (group, mut changes) in changes {
        // At one time those that end go first.
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
    let active = facts.snapshot.jobs.iter().filter(|job| job.state == "active").count() as u64;
    if facts.snapshot.slots > active {
        let what = format!("groups hold {} slots in the end, and {active} jobs run", facts.snapshot.slots);
        found.push(Finding { invariant: Invariant::Limits, about: About::Nothing, what });
    }
}
