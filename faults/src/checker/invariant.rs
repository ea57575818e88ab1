//! The invariants, by number.

use std::fmt;

/// What must hold, whatever fails.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[repr(u8)]
pub enum Invariant {
    /// What was accepted is done, is there, or was taken away by a person.
    NoLoss = 1,
    /// Every start refers to an enqueue and to a delivery.
    NoGhosts = 2,
    /// A job lies in one state, and everybody says so.
    OnePlace = 3,
    /// What has ended does not start again.
    NoResurrection = 4,
    /// Claim numbers grow; of each at most one finish counts, and none after the next claim.
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
    /// Without faults nothing starts long after it is due.
    BoundedLate = 11,
    /// At most one job holds a unique key, and none that has ended.
    Unique = 12,
    /// Each tick of a schedule makes one job, or is skipped and counted.
    Schedules = 13,
    /// One worker of one slot starts jobs in the order in which they came.
    Fifo = 14,
    /// No process runs more at once than it may.
    Limits = 15,
    /// An enqueue that is repeated makes one job.
    IdempotentEnqueue = 16,
    /// A kept result is that of the finish that counted.
    ResultBinding = 17,
    /// What was cancelled does not start, and its finish does not count.
    Cancelled = 18,
    /// A dead job can be read, with the reason.
    DeadLetters = 19,
    /// Bytes in are bytes out.
    PayloadKept = 20,
    /// The counters say what happened.
    Accounting = 21,
    /// A bad job spoils no other.
    Isolation = 22,
    /// What was refused leaves no trace.
    CleanRefusal = 23,
    /// Nothing is held by nobody.
    NothingStuck = 24,
    /// Workers work again soon after the harm has ended.
    NoSilentZombie = 25,
    /// All work ends.
    Drains = 26,
    /// A live worker renews its lease in time.
    Renewals = 27,
    /// What was used is given back.
    Resources = 28,
    /// A subscription has every event of its span, and none from before its begin.
    Subscriptions = 29,
    /// Jobs of an ordered group run one after the other, in the order in which they came.
    Lines = 30,
}

/// Invariants about what is not built yet, and why they are not checked.
pub const LEFT_OUT: [(&str, &str); 1] =
    [("I19 evicted dead jobs", "their eviction is counted in the queue's statistics and leaves no event per job")];

/// What cannot be asked of a broker that may lose what it has acknowledged: what it says twice is
/// not what it has said once.
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
    /// As it is printed.
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
