//! Counters in memory.

use std::{
    collections::BTreeMap,
    sync::{Mutex, PoisonError},
    time::Duration,
};

use super::{CallOutcome, Observe};

/// An observer that counts the calls of each verb.
#[derive(Debug, Default)]
pub struct Calls(Mutex<BTreeMap<&'static str, VerbCalls>>);

/// The calls of one verb so far.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct VerbCalls {
    /// All calls with any outcome.
    pub calls: u64,
    /// Calls without an answer, by the [name](CallOutcome::name) of their outcome: the kind of an
    /// error, or `cancelled`.
    pub errors: BTreeMap<&'static str, u64>,
    /// The time of all calls together.
    pub total: Duration,
    /// The time of the slowest call.
    pub max: Duration,
}

impl Calls {
    /// The counters of each verb that was called.
    pub fn snapshot(&self) -> BTreeMap<&'static str, VerbCalls> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }
}

impl Observe for Calls {
    fn call(&self, verb: &'static str, outcome: CallOutcome, elapsed: Duration) {
        let mut verbs = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let verb = verbs.entry(verb).or_default();
        verb.calls += 1;
        verb.total += elapsed;
        verb.max = verb.max.max(elapsed);
        if outcome != CallOutcome::Ok {
            *verb.errors.entry(outcome.name()).or_default() += 1;
        }
    }
}
