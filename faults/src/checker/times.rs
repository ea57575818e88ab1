//! I9, I10, I11: the times of runs.

use super::{
    Invariant,
    facts::{Facts, Finding, Job, Span, broken},
};
use crate::history::Ending;

/// Clocks of a machine are read in microseconds and kept in milliseconds.
const ROUNDING_MS: u64 = 2;

pub(super) fn check(facts: &Facts<'_>, found: &mut Vec<Finding>) {
    for (id, job) in &facts.jobs {
        first_start(facts, id, job, found);
        later_starts(facts, id, job, found);
    }
}

/// I10 and I11 of the first delivery: not before the end of the delay, and not long after it.
fn first_start(facts: &Facts<'_>, id: &str, job: &Job<'_>, found: &mut Vec<Finding>) {
    let (Some(enqueue), Some(first)) = (facts.enqueue_of(job), job.deliveries.values().next()) else { return };
    let at_ms = first.given_ms(facts.terms);
    let due_ms = enqueue.span.from_us / 1000 + enqueue.delay_ms;
    // A server whose file ended in the middle of the enqueue may have the job without its time. The
    // auditor then finds the job, because it does not wait anywhere.
    if at_ms + ROUNDING_MS < due_ms && !facts.tail_was_cut(enqueue.span.from_us, first.claimed_us) {
        broken(found, Invariant::NeverEarly, id, format!("claim {} came {} ms before it was due", first.claim, due_ms - at_ms));
    }
    if let (Some(late_ms), Some(stored_us)) = (facts.terms.late_ms, enqueue.span.to_us) {
        let latest_ms = stored_us / 1000 + enqueue.delay_ms + late_ms;
        if first.starts.first().is_some_and(|start| start / 1000 > latest_ms) {
            broken(found, Invariant::BoundedLate, id, format!("started more than {late_ms} ms after it was due"));
        }
    }
}

/// I9 and I10 of the others: not before the time in the finish. A failure waits for at least half
/// of its nominal backoff.
fn later_starts(facts: &Facts<'_>, id: &str, job: &Job<'_>, found: &mut Vec<Finding>) {
    let mut failures = 0;
    for (earlier, later) in job.deliveries.values().zip(job.deliveries.values().skip(1)) {
        let Some(finish) = earlier.accepted().filter(|finish| !finish.ending.is_final()) else { continue };
        // An event that is read again is a new job without a delay.
        let is_between = |span: &Span| span.from_us <= later.claimed_us && span.to_us.is_none_or(|to| to >= earlier.claimed_us);
        if job.rewinds.iter().any(|(span, _)| is_between(span)) {
            continue;
        }
        // A delay that the broker has lost with the end of its file no longer applies, and its
        // failure does not count.
        let is_failure = matches!(finish.ending, Ending::Nack { .. });
        if (!is_failure || later.attempts == earlier.attempts) && facts.tail_was_cut(finish.span.from_us, later.claimed_us) {
            continue;
        }
        let (delay_ms, invariant) = match finish.ending {
            Ending::Nack { .. } => {
                failures = earlier.attempts + 1;
                (facts.terms.shortest_backoff_ms(failures), Invariant::Backoff)
            }
            ending => (ending.delay_ms(), Invariant::NeverEarly),
        };
        let due_ms = finish.span.from_us / 1000 + delay_ms;
        let at_ms = later.given_ms(facts.terms);
        if at_ms + ROUNDING_MS < due_ms {
            let what = format!("claim {} came {} ms too early after failure {failures}", later.claim, due_ms - at_ms);
            broken(found, invariant, id, what);
        } else if finish.span.from_us / 1000 + finish.ending.delay_ms() > at_ms + ROUNDING_MS {
            broken(
                found,
                Invariant::NeverEarly,
                id,
                format!("claim {} came before the delay of its {} was over", later.claim, finish.ending.name()),
            );
        }
    }
}
