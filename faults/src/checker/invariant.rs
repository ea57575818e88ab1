//! The invariants, by number.

use std::fmt;

/// The invariants, which hold for all faults.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[repr(u8)]
pub enum Invariant {
    /// An accepted job is done, exists, or was removed by an operator.
    NoLoss = 1,
    /// Every start refers to an enqueue and to a delivery.
    NoGhosts = 2,
    /// A job is in one state, and all reads agree.
    OnePlace = 3,
    /// An ended job does not start again.
    NoResurrection = 4,
    /// Claim numbers grow. At most one finish of each counts, and none after the next claim.
    Fencing = 5,
    /// One valid holder at a time.
    SingleHolder = 6,
    /// Each start after the first has a cause.
    ExplainedRedelivery = 7,
    /// Failures and crashes are counted, bounded, and kept apart.
    Attempts = 8,
    /// A retry waits for its backoff.
    Backoff = 9,
    /// Nothing starts before it is due.
    NeverEarly = 10,
    /// Without faults, no job starts long after it is due.
    BoundedLate = 11,
    /// At most one job holds a unique key, and it has not ended.
    Unique = 12,
    /// Each tick of a schedule makes one job, or is skipped and counted.
    Schedules = 13,
    /// One worker with one slot starts jobs in their order.
    Fifo = 14,
    /// No process runs more jobs at once than its limit.
    Limits = 15,
    /// An enqueue that is repeated makes one job.
    IdempotentEnqueue = 16,
    /// A kept result is that of the finish that counted.
    ResultBinding = 17,
    /// A cancelled job does not start, and its finish does not count.
    Cancelled = 18,
    /// A dead job can be read, with the reason.
    DeadLetters = 19,
    /// The payload is unchanged.
    PayloadKept = 20,
    /// The counters agree with the events.
    Accounting = 21,
    /// A bad job does not affect others.
    Isolation = 22,
    /// A refused request leaves no trace.
    CleanRefusal = 23,
    /// Every held job and slot has a holder.
    NothingStuck = 24,
    /// Workers work again soon after the faults have ended.
    NoSilentZombie = 25,
    /// All work ends.
    Drains = 26,
    /// A live worker renews its lease in time.
    Renewals = 27,
    /// Used resources are released.
    Resources = 28,
    /// A subscription gets every event from its begin on, and no earlier one.
    Subscriptions = 29,
    /// Jobs of an ordered group run one after the other, in their order.
    Lines = 30,
}

/// Invariants that are not checked, with the reasons.
pub const LEFT_OUT: [(&str, &str); 1] =
    [("I19 evicted dead jobs", "their eviction is counted in the queue's statistics and leaves no event per job")];

/// Invariants that do not apply to a broker that may lose acknowledged data.
pub(super) const EXCUSED: [Invariant; 12] = [
    Invariant::Lines,
    Invariant::Unique,
    Invariant::Schedules,
    Invariant::NoLoss,
    Invariant::NoResurrection,
    Invariant::ExplainedRedelivery,
    Invariant::SingleHolder,
    Invariant::Attempts,
    Invariant::IdempotentEnqueue,
    Invariant::Cancelled,
    Invariant::DeadLetters,
    Invariant::Accounting,
];

impl Invariant {
    /// The printed title.
    pub fn title(self) -> &'static str {
        match self {
            Invariant::NoLoss => "no loss",
            Invariant::NoGhosts => "no ghosts",
            Invariant::OnePlace => "one place",
            Invariant::NoResurrection => "no resurrection",
            Invariant::Fencing => "fencing",
            Invariant::SingleHolder => "single valid holder",
            Invariant::ExplainedRedelivery => "redelivery is explained",
            Invariant::Attempts => "attempts",
            Invariant::Backoff => "backoff",
            Invariant::NeverEarly => "never early",
            Invariant::BoundedLate => "bounded late",
            Invariant::Unique => "unique",
            Invariant::Schedules => "schedules",
            Invariant::Fifo => "first in, first out",
            Invariant::Limits => "limits",
            Invariant::IdempotentEnqueue => "idempotent enqueue",
            Invariant::ResultBinding => "result binding",
            Invariant::Cancelled => "cancel",
            Invariant::DeadLetters => "dead letters",
            Invariant::PayloadKept => "payload",
            Invariant::Accounting => "accounting",
            Invariant::Isolation => "isolation",
            Invariant::CleanRefusal => "refusal is clean",
            Invariant::NothingStuck => "nothing stuck",
            Invariant::NoSilentZombie => "no silent zombie",
            Invariant::Drains => "queue drains",
            Invariant::Renewals => "renewals",
            Invariant::Resources => "resources",
            Invariant::Subscriptions => "subscriptions",
            Invariant::Lines => "ordered groups",
        }
    }
}

impl fmt::Display for Invariant {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "I{} {}", *self as u8, self.title())
    }
}
