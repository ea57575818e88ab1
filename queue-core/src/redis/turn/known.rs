//! The known feature bits of queues, by which a turn selects its script.

use std::{
    collections::HashMap,
    sync::{Arc, PoisonError, RwLock},
    time::{Duration, Instant},
};

use crate::{broker::TurnAnswer, redis::script::bits::Bits};

/// The queues that are known to have bits or scheduled jobs. Other queues have no entry.
#[derive(Debug, Default)]
pub(in crate::redis) struct KnownQueues {
    others: RwLock<HashMap<Arc<str>, Known>>,
    /// Tests set this to bypass the plain scripts.
    full: bool,
}

/// Two times that differ by less than this count as equal, and the first is kept, because answers
/// have varying latency. If the times do differ, some turns use the more expensive script. Their
/// answers are the same.
const NEAR: Duration = Duration::from_millis(20);

/// What a server has reported about a queue.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Known {
    bits: Bits,
    /// A job is due at this time: the turn then uses `turn.lua`.
    until: Option<Instant>,
}

impl Known {
    /// The next scheduled job is not due earlier, because the server read its clock after the
    /// request was sent.
    pub(super) fn from(bits: Bits, answer: &TurnAnswer, sent: Instant) -> Self {
        Known { bits, until: answer.next_due.map(|due| sent + due) }
    }

    fn is_near(self, other: Known) -> bool {
        let near = match (self.until, other.until) {
            (Some(one), Some(other)) => one.max(other) - one.min(other) < NEAR,
            (one, other) => one == other,
        };
        near && self.bits == other.bits
    }
}

impl KnownQueues {
    pub(in crate::redis) fn new(full: bool) -> Self {
        KnownQueues { others: RwLock::default(), full }
    }

    /// Whether the plain scripts are bypassed.
    pub(in crate::redis) fn full(&self) -> bool {
        self.full
    }

    fn known(&self, queue: &str) -> Known {
        self.others.read().unwrap_or_else(PoisonError::into_inner).get(queue).copied().unwrap_or_default()
    }

    /// The bits of a queue; all of them once a job is due.
    pub(super) fn bits(&self, queue: &str) -> Bits {
        let known = self.known(queue);
        if known.until.is_some_and(|until| Instant::now() >= until) { Bits::ALL } else { known.bits }
    }

    pub(super) fn store(&self, queue: &Arc<str>, known: Known) {
        let before = self.known(queue);
        if before.is_near(known) && before.until.is_none_or(|until| Instant::now() < until) {
            return;
        }
        let mut others = self.others.write().unwrap_or_else(PoisonError::into_inner);
        if known == Known::default() {
            others.remove(queue);
        } else {
            others.insert(queue.clone(), known);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_time_that_has_passed_gives_way_to_one_that_is_near() {
        let (queues, queue, now) = (KnownQueues::default(), Arc::from("q"), Instant::now());
        let until = |until| Known { bits: Bits::NONE, until: Some(until) };
        queues.store(&queue, until(now));
        assert_eq!(queues.bits(&queue), Bits::ALL);
        let (soon, sooner) = (now + 3000 * NEAR, now + 3000 * NEAR - NEAR / 2);
        queues.store(&queue, until(now + NEAR / 2));
        assert_eq!(queues.known(&queue), until(now + NEAR / 2));
        queues.store(&queue, until(soon));
        queues.store(&queue, until(sooner));
        assert_eq!((queues.known(&queue), queues.bits(&queue)), (until(soon), Bits::NONE));
    }
}
