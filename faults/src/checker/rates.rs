//! I15: the number of starts is within the rate, and the usage of runs is charged.

use super::{
    Invariant,
    facts::{About, Facts, Finding},
};
use crate::history::Ending;

/// The compared times were taken before and after, and are whole milliseconds.
const SLACK: f64 = 2.0;

/// The charged event. The order of events at the same time is unknown, so a start is considered
/// first.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Of {
    Start,
    End,
}

pub(super) fn check(facts: &Facts<'_>, found: &mut Vec<Finding>) {
    let Some(rate) = facts.terms.rate else { return };
    // A start is charged when the broker claims it. Additional usage of its run is charged before
    // the broker answers to its end.
    let mut charges = Vec::new();
    for delivery in facts.jobs.values().flat_map(|job| job.deliveries.values()).filter(|delivery| !delivery.starts.is_empty()) {
        charges.push((delivery.given_ms(facts.terms), Of::Start, 1));
        if let Some(answered_us) = delivery.accepted().filter(|finish| finish.ending == Ending::Ack).and_then(|finish| finish.span.to_us) {
            charges.push((answered_us.div_ceil(1_000), Of::End, rate.used - 1));
        }
    }
    charges.sort_unstable();
    let Some((first, ..)) = charges.first().copied() else { return };
    let mut charged = 0.0;
    for (at, of, cost) in charges {
        charged += f64::from(cost);
        let allowed = f64::from(rate.burst) + f64::from(rate.per_second) * (at - first) as f64 / 1_000.0 + SLACK;
        // An end may leave a debt, and a start may not.
        if of == Of::Start && charged > allowed {
            let what = format!("a job started {at} ms after 1970, when {charged} were charged to a rate that allowed {allowed:.1}");
            found.push(Finding { invariant: Invariant::Limits, about: About::Nothing, what });
            break;
        }
    }
}
