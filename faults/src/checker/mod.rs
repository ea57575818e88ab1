//! Judges what happened: a pure function over the merged histories of all processes and the final
//! state of the broker.
//!
//! [`check`] knows nothing of processes, brokers or faults. It is tested by one hand-made history
//! per invariant that breaks this one and no other.
//!
//! | invariants | file |
//! |---|---|
//! | I1, I2, I16, I20, I23: what was enqueued is what there is | `existence` |
//! | I3, I19, I24: where jobs lie in the end | `places` |
//! | I4 to I7, I18: who may run and finish a job | `tokens` |
//! | I8, I17, I21, I22: what is counted and kept | `counts` |
//! | I17, of progress and logs: what is kept of what handlers told | `told` |
//! | I9 to I11: when a job runs | `times` |
//! | I12: who holds a unique key | `unique` |
//! | I13: which ticks of a schedule make a job | `schedules` |
//! | I15, of groups: how many of each run, and that none starves | `groups`, `fairness` |
//! | I14, I15: in which order, and how many at once | `order` |
//! | I29: which events a subscription has | `topics` |
//! | I30: that one of a group starts after the other | `lines` |
//! | I25 to I28: that everything goes on afterwards | `recovery` |
//!
//! An operation without an answer may or may not have happened: it explains what is seen, and
//! accuses nobody.

mod counts;
mod existence;
mod facts;
mod fairness;
mod groups;
mod invariant;
mod lines;
mod order;
mod places;
mod rates;
mod recovery;
mod schedules;
mod snapshot;
mod summary;
#[cfg(test)]
mod tests;
mod timeline;
mod times;
mod tokens;
mod told;
mod topics;
mod unique;

use facts::Facts;

pub use self::{
    invariant::{Invariant, LEFT_OUT},
    snapshot::{Held, HeldKey, HeldSchedule, HeldSubscription, Lane, RateTerms, Resources, Snapshot, Terms, Ticks, Told},
    summary::Summary,
};
use crate::history::Record;

/// A promise that was broken.
#[derive(Clone, Debug)]
pub struct Violation {
    /// Which.
    pub invariant: Invariant,
    /// What was seen, in a line.
    pub what: String,
    /// The shortest explanation: what happened to this job or process, a line each.
    pub timeline: Vec<String>,
}

/// What came out.
#[derive(Clone, Debug)]
pub struct Verdict {
    /// Everything that was broken.
    pub violations: Vec<Violation>,
    /// What happened, in numbers.
    pub summary: Summary,
}

impl Verdict {
    /// How often one of these invariants was broken.
    pub fn broken(&self, invariants: &[Invariant]) -> usize {
        self.violations.iter().filter(|violation| invariants.contains(&violation.invariant)).count()
    }
}

/// Checks histories, in the order of their times, against the final state.
pub fn check(records: &[Record], snapshot: &Snapshot, terms: &Terms) -> Verdict {
    let facts = Facts::gather(records, snapshot, terms);
    let mut found = Vec::new();
    type Rules = fn(&Facts<'_>, &mut Vec<facts::Finding>);
    let rules: [Rules; 15] = [
        existence::check,
        places::check,
        tokens::check,
        counts::check,
        times::check,
        order::check,
        unique::check,
        schedules::check,
        groups::check,
        rates::check,
        fairness::check,
        told::check,
        topics::check,
        lines::check,
        recovery::check,
    ];
    for rules in rules {
        rules(&facts, &mut found);
    }
    let violations = found
        .into_iter()
        .filter(|finding| !(terms.volatile && invariant::EXCUSED.contains(&finding.invariant)))
        .map(|facts::Finding { invariant, about, what }| Violation { invariant, what, timeline: timeline::of(&facts, &about) })
        .collect();
    Verdict { violations, summary: Summary::of(&facts) }
}
