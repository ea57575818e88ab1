//! I4 to I7, and I18: the holders and finishes of jobs.

use super::{
    Invariant,
    facts::{Delivery, Facts, Fate, Finding, Finish, Job, Span, broken},
};
use crate::history::{Ending, POWER_CUT};

pub(super) fn check(facts: &Facts<'_>, found: &mut Vec<Finding>) {
    for (id, job) in &facts.jobs {
        fencing(id, job, found);
        for (earlier, later) in job.deliveries.values().zip(job.deliveries.values().skip(1)) {
            successor(facts, id, job, earlier, later, found);
        }
        started_twice(id, job, found);
        cancelled(id, job, found);
    }
}

/// The reason of another delivery of a job.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Cause {
    /// The name under which it is counted.
    pub(super) name: &'static str,
    /// The earliest time at which it may have taken effect.
    pub(super) since_us: u64,
}

/// The reason why `later` followed `earlier`: an accepted finish, or else the first event that may
/// have caused it.
pub(super) fn cause(facts: &Facts<'_>, job: &Job<'_>, earlier: &Delivery<'_>, later: &Delivery<'_>) -> Option<Cause> {
    let by = |finish: &Finish| Cause { name: finish.ending.name(), since_us: finish.span.from_us };
    let comes_back = |finish: &&Finish| !finish.ending.is_final();
    if let Some(accepted) = earlier.accepted().filter(comes_back) {
        return Some(by(accepted));
    }
    // The change of an operator may take effect, and the job may be claimed, before the answer
    // arrives.
    let revivals = job.revivals().filter(|span| span.to_us.is_none_or(|to| to >= earlier.claimed_us));
    let rewinds = job.rewinds.iter().filter(|(span, fate)| *fate != Fate::Refused && ran_through(facts, job, *span, earlier));
    let person = revivals.chain(rewinds.map(|(span, _)| *span)).map(|span| Cause { name: "person", since_us: span.from_us });
    let lost = facts.fenced_since(earlier.lane).map(|since_us| Cause { name: "reclaim", since_us });
    // A claim does not wait for the disk, so the broker may have lost it.
    let cut = facts.faults.iter().filter(|(at, name, _)| *name == POWER_CUT && *at >= earlier.claimed_us);
    let cut = cut.map(|(at, ..)| Cause { name: POWER_CUT, since_us: *at });
    let causes: Vec<Cause> = person.chain(lost).chain(cut).chain(earlier.possible().filter(comes_back).map(by)).collect();
    causes.iter().find(|cause| cause.since_us <= later.claimed_us).or(causes.first()).copied()
}

/// Whether a job may have been active at a rewind, and has ended for the first time since. Its
/// event is handled again when the subscription reaches it. A waiting job is removed by the rewind.
fn ran_through(facts: &Facts<'_>, job: &Job<'_>, rewind: Span, earlier: &Delivery<'_>) -> bool {
    let is_over = |one: &Delivery<'_>| one.accepted().is_some_and(|finish| finish.ending.is_final());
    let is_before = |at_us: u64| rewind.to_us.is_none_or(|to| at_us <= to);
    let begun = job.deliveries.values().rfind(|one| is_before(one.given_by_ms(facts.terms) * 1000));
    let since = match begun {
        Some(running) if running.claim > earlier.claim => return false,
        Some(running) => {
            if is_over(running) && running.accepted().is_some_and(|finish| finish.span.from_us < rewind.from_us) {
                return false;
            }
            running.claim
        }
        // A worker may have held it without recording its claim.
        None => {
            let mut published = job.key.and_then(|key| facts.publishes.get(&key)).into_iter().flatten();
            let mut unseen = facts.unanswered_until(0).into_iter();
            if !published.any(|publish| publish.fate != Fate::Refused && is_before(publish.span.from_us))
                || !unseen.any(|(since, until)| is_before(since) && until >= rewind.from_us)
            {
                return false;
            }
            0
        }
    };
    job.deliveries.range(since..=earlier.claim).filter(|(_, one)| is_over(one)).count() <= 1
}

/// I5, except for the checks that need the next delivery.
fn fencing(id: &str, job: &Job<'_>, found: &mut Vec<Finding>) {
    for claim in &job.shared_claims {
        broken(found, Invariant::Fencing, id, format!("claim {claim} was given to two lanes"));
    }
    for delivery in job.deliveries.values() {
        let counted: Vec<_> = delivery.finishes.values().filter(|finish| finish.fate == Fate::Happened).collect();
        if counted.len() > 1 {
            let endings: Vec<_> = counted.iter().map(|finish| finish.ending.name()).collect();
            broken(found, Invariant::Fencing, id, format!("claim {} was finished twice: {}", delivery.claim, endings.join(", ")));
        }
    }
}

/// I4 to I7 between two consecutive deliveries.
fn successor(facts: &Facts<'_>, id: &str, job: &Job<'_>, earlier: &Delivery<'_>, later: &Delivery<'_>, found: &mut Vec<Finding>) {
    let (first, second) = (earlier.claim, later.claim);
    if earlier.given_ms(facts.terms) > later.given_ms(facts.terms) {
        broken(found, Invariant::Fencing, id, format!("claim {first} is smaller than {second}, and came later"));
        return;
    }
    if let Some(late) = earlier.accepted().filter(|finish| finish.span.from_us > later.claimed_us) {
        let what = format!("the {} of claim {first} counted after claim {second} was given", late.ending.name());
        broken(found, Invariant::Fencing, id, what);
        return;
    }
    let requeued = job.revivals().next().is_some();
    if let Some(last) = earlier.accepted().filter(|finish| finish.ending.is_final() && !requeued) {
        let what = format!("claim {second} was given after the {} of claim {first} had counted", last.ending.name());
        broken(found, Invariant::NoResurrection, id, what);
        return;
    }
    match cause(facts, job, earlier, later) {
        None => broken(found, Invariant::ExplainedRedelivery, id, format!("nothing explains claim {second} after claim {first}")),
        Some(cause) if cause.since_us > later.claimed_us => {
            let what = format!("claim {second} was given while claim {first} stood: its {} came later", cause.name);
            broken(found, Invariant::SingleHolder, id, what);
        }
        Some(_) => {}
    }
}

/// I7, within one delivery.
fn started_twice(id: &str, job: &Job<'_>, found: &mut Vec<Finding>) {
    for delivery in job.deliveries.values().filter(|delivery| delivery.starts.len() > 1) {
        broken(found, Invariant::ExplainedRedelivery, id, format!("claim {} was started {} times", delivery.claim, delivery.starts.len()));
    }
}

/// I18: a cancel that was answered before a claim or a finish was sent takes precedence.
fn cancelled(id: &str, job: &Job<'_>, found: &mut Vec<Finding>) {
    let done = job.cancels.iter().filter(|(_, fate)| *fate == Fate::Happened).filter_map(|(span, _)| span.to_us).min();
    let Some(done) = done else { return };
    for delivery in job.deliveries.values() {
        if u64::try_from(delivery.at_ms).is_ok_and(|at_ms| at_ms > done / 1000 + 1) {
            broken(found, Invariant::Cancelled, id, format!("claim {} was given after its cancel", delivery.claim));
        } else if delivery.accepted().is_some_and(|finish| finish.span.from_us > done && finish.ending != Ending::Void) {
            broken(found, Invariant::Cancelled, id, format!("the finish of claim {} counted after its cancel", delivery.claim));
        }
    }
}
