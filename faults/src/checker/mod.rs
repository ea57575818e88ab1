//! Judges a run: a pure function of the merged histories of all processes and the final state of
//! the broker.
//!
//! [`check`] is independent of processes, brokers and faults. It is tested with one manual history
//! per invariant that breaks this one and no other.
//!
//! | invariants | file |
//! |---|---|
//! | I1, I2, I16, I20, I23: the enqueued jobs are the existing jobs | `existence` |
//! | I3, I19, I24: the final places of jobs | `places` |
//! | I4 to I7, I18: the holders and finishes of jobs | `tokens` |
//! | I8, I17, I21, I22: counters and kept results | `counts` |
//! | I17, of progress and logs: the stored reports of handlers | `told` |
//! | I9 to I11: the times of runs | `times` |
//! | I12: the holders of unique keys | `unique` |
//! | I13: the jobs of ticks of schedules | `schedules` |
//! | I15, of groups: their caps, and that none starves | `groups`, `fairness` |
//! | I14, I15: order and concurrency | `order` |
//! | I29: the events of a subscription | `topics` |
//! | I30: the order of jobs of a group | `lines` |
//! | I25 to I28: recovery | `recovery` |
//!
//! An operation without an answer may or may not have happened. It can explain an observation, but
//! is never a violation.

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

/// A broken promise.
#[derive(Clone, Debug)]
pub struct Violation {
    /// The invariant.
    pub invariant: Invariant,
    /// The observation, in one line.
    pub what: String,
    /// The shortest explanation: the events of this job or process, one per line.
    pub timeline: Vec<String>,
}

/// The result of a check.
#[derive(Clone, Debug)]
pub struct Verdict {
    /// All violations.
    pub violations: Vec<Violation>,
    /// The numbers of the run.
    pub summary: Summary,
}

impl Verdict {
    /// The number of violations of these invariants.
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
