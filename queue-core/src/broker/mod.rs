//! The interface between this framework and the store of the jobs, for authors of a broker or of a
//! wrapper around one. It is not stable: it may change in any release before 1.0. The types that
//! applications use are at the root of this crate.
//!
//! [`Broker`] has the methods for workers and producers, [`Inspect`] those for operators. Neither
//! contains a backend type, and both are object-safe: all other code holds an `Arc<dyn Broker>`.
//! Each method is declared once, in the list of `verbs.rs`. A broker around another one is a
//! [`Wrapper`].
//!
//! # The lease protocol in short
//!
//! The field `lane` of a request names one *lane*: a worker's registration with one queue. A lane
//! that [registers](Broker::register) gets a name that was never used before, an entry at the
//! broker, and a **lease**. Every [turn](Broker::turn) and every [heartbeat](Broker::extend) renews
//! the lease. A turn submits endings and claims new jobs. Each claim stores a **receipt** with its
//! jobs: the lane's name and a claim number that only grows. An ending counts only while the stored
//! receipt equals the delivery's, byte for byte. When a lease has expired, a reclaimer
//! [fences](Broker::fence) the lane: the broker answers
//! [`Error::Forgotten`](crate::Error::Forgotten) to all of its later requests. Then the reclaimer
//! [reclaims](Broker::reclaim) the lane's jobs.
//!
//! # Requests are sent again until they are answered
//!
//! Turns and enqueues carry a sequence number. The caller sends a request without an answer again,
//! **unchanged**. The broker recognizes the number, carries out nothing twice, and returns the same
//! answer. `Forgotten` means that the broker does not know this lane or producer, or not its last
//! requests: register under a new name, and consider all jobs that it held as lost.
//!
//! The rules have numbers, R1 to R13, which the documentation below and the code refer to.
//! `docs/protocol.md` of the repository has the rules, and `docs/README.md` the glossary.

mod aging;
mod ask;
mod audit;
mod calls;
mod change;
mod condition;
mod diagnosis;
mod durability;
mod edit;
mod enqueue;
mod group;
mod hints;
pub mod history;
mod inspect;
mod lease;
mod limit;
mod load;
mod operation;
mod outbox;
mod party;
mod pause;
mod progress;
mod rewind;
mod scan;
mod schedule;
mod stats;
mod sweep;
mod topic;
mod transition;
mod turn;
mod verbs;
mod worker;
mod wrapper;

use std::{sync::Arc, time::Duration};

pub(crate) use self::calls::{after, on_broker, on_broker_until};
pub use self::{
    aging::*,
    ask::*,
    audit::*,
    change::*,
    condition::*,
    diagnosis::*,
    durability::*,
    edit::*,
    enqueue::*,
    group::*,
    hints::*,
    inspect::*,
    lease::*,
    limit::*,
    load::*,
    operation::*,
    outbox::*,
    party::*,
    pause::*,
    progress::*,
    rewind::*,
    scan::*,
    schedule::*,
    stats::*,
    sweep::*,
    topic::*,
    transition::*,
    turn::*,
    verbs::*,
    worker::*,
    wrapper::{Caller, Verb},
};
pub use crate::{group::*, limit::*, priority::Priority, unique::*};

/// Longest delay, retention, expiry or timeout: a hundred years, with their leap days.
pub const LONGEST: Duration = Duration::from_secs(36_525 * 24 * 3600);

/// Most items of one request: jobs of an enqueue, finishes and claims of a turn, ids of a change.
pub const MAX_ITEMS: usize = 500;

/// Most jobs of `scheduled`, and as many of `retry`, that a turn promotes.
pub const DUE_ITEMS: usize = 200;

/// Most bytes of the envelopes and results of one request or answer (a single larger item is sent
/// alone).
pub const MAX_BYTES: usize = 1024 * 1024;

/// Most jobs that one call of [`Broker::reclaim`] moves.
pub const RECLAIM_ITEMS: usize = 100;

#[doc(hidden)]
pub mod sealed {
    /// Seals [`Broker`](super::Broker), so that its methods may change. A crate that names the seal
    /// has to follow such changes.
    #[derive(Debug)]
    pub struct Seal;
}

/// The kind and location of a broker, for messages.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct BrokerInfo {
    /// `redis` or `sqlite`.
    pub kind: &'static str,
    /// The URL without secrets, or the absolute path of the file.
    pub location: String,
}

impl BrokerInfo {
    /// Describes a broker.
    pub fn new(kind: &'static str, location: impl Into<String>) -> Self {
        BrokerInfo { kind, location: location.into() }
    }
}

/// A shared broker, as client, worker and inspector hold it.
pub type DynBroker = Arc<dyn Broker>;

/// How long a call to a broker may take before it counts as unanswered.
pub const CALL_DEADLINE: Duration = Duration::from_secs(5);
