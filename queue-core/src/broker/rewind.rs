//! Rewinds, which set a subscription to an earlier or later position of the log.
//!
//! During a rewind the subscription reads nothing. The runner takes the steps of [`RewindStep`] in
//! order. Between [`Begin`](RewindStep::Begin) and [`Forget`](RewindStep::Forget) it cancels the
//! waiting jobs of the queue, with [`Cancel`](RewindStep::Cancel). If the runner crashes, the
//! subscription stays stopped until another rewind repeats all steps.

use std::sync::Arc;

use crate::{
    address::{JobId, check_name},
    begin::Begin,
    broker::MAX_ITEMS,
    error::{Error, Result},
};

/// The place from which a subscription reads again.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum RewindTarget {
    /// A place where a new subscription can begin: the oldest event, the next one, or a time.
    At(Begin),
    /// The event with this position, as [`Inspect::read_topic`](super::Inspect::read_topic) returns
    /// it.
    Event(String),
}

impl From<Begin> for RewindTarget {
    fn from(begin: Begin) -> Self {
        RewindTarget::At(begin)
    }
}

impl std::fmt::Display for RewindTarget {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            RewindTarget::At(begin) => f.write_str(&begin.stored()),
            RewindTarget::Event(position) => f.write_str(position),
        }
    }
}

/// One step of a rewind.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Rewind {
    /// The topic.
    pub topic: Arc<str>,
    /// The name of the subscription.
    pub name: Arc<str>,
    /// The step.
    pub step: RewindStep,
}

/// The action of one step of a rewind. A token is a unique name of this rewind: letters, digits and
/// `-`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum RewindStep {
    /// Finds the target, and changes nothing.
    Look(RewindTarget),
    /// Sets the cursor to the target: from now on the subscription reads nothing. A rewind that is
    /// under way is taken over.
    Begin {
        /// The place from which the subscription reads again.
        target: RewindTarget,
        /// The token of the rewind.
        token: String,
        /// The token that [`Look`](RewindStep::Look) has found. If the subscription has another
        /// token, this step is late, or another rewind has begun since. Then nothing is changed.
        after: String,
    },
    /// Counts the entries after a position, up to another one.
    Count(String, String),
    /// Cancels those of these jobs that wait. A job that is active or has ended is not changed.
    Cancel {
        /// The token of the rewind.
        token: String,
        /// The reason, if there is one.
        reason: Option<String>,
        /// Which, at most [`MAX_ITEMS`].
        ids: Vec<JobId>,
    },
    /// Forgets the jobs of entries after a position, up to the old cursor: all except active jobs
    /// are removed, and their ids may be used again.
    Forget(String, String),
    /// The subscription continues to read. The number is that of the entries whose jobs were
    /// forgotten.
    End(String, u64),
}

impl Rewind {
    /// A step.
    pub fn new(topic: impl Into<Arc<str>>, name: impl Into<Arc<str>>, step: RewindStep) -> Self {
        Rewind { topic: topic.into(), name: name.into(), step }
    }

    /// For brokers: whether it can be taken.
    ///
    /// # Errors
    /// [`Error::Invalid`] for names outside the grammar, and for more ids than one call may have.
    pub fn check(&self) -> Result<()> {
        if let RewindStep::Cancel { ids, .. } = &self.step
            && ids.len() > MAX_ITEMS
        {
            return Err(Error::invalid("ids", ids.len().to_string(), format!("are more than {MAX_ITEMS} at once")));
        }
        check_name("topic", &self.topic)?;
        check_name("subscription", &self.name)
    }

    /// For brokers: the error for a position that is not in this log.
    pub fn unknown(position: &str) -> Error {
        Error::invalid("position", position, "is not a position in this log; use one that `topics read` has printed")
    }
}

/// The result of a step of a rewind.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Rewound {
    /// The subscription does not exist.
    NotFound,
    /// Another rewind of the subscription has taken over, or the step arrived after the end of its
    /// rewind.
    Other,
    /// The place where it begins, and the old cursor. `is_short`: entries of the target are or may
    /// be removed.
    Target {
        /// The position of the entry before the first.
        from: String,
        /// The old cursor.
        upto: String,
        /// Whether the target is before the oldest entry, and entries have been removed.
        is_short: bool,
        /// The token of the rewind that is under way, or of the last one; empty if there was none.
        token: String,
    },
    /// Entries that were passed.
    Passed {
        /// How many.
        entries: u64,
        /// The position after them, if there may be more.
        next: Option<String>,
    },
    /// The number of cancelled jobs.
    Cancelled(u64),
    /// The subscription continues to read.
    Ended,
}
