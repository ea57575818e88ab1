//! Changes of jobs by operators.

use std::fmt;

use super::JobState;
use crate::address::JobId;

/// A change of jobs by an operator. For one job there are
/// [`Inspector::cancel`](crate::inspect::Inspector::cancel) and its sisters, for many
/// [`Inspector::change_many`](crate::inspect::Inspector::change_many) and
/// [`Inspector::change_all`](crate::inspect::Inspector::change_all).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Change {
    /// Any state that is not final → `cancelled` (R13). The result of a running job is discarded,
    /// and its handler is cancelled: at once, or with the next heartbeat of its worker if the
    /// announcement is lost.
    Cancel,
    /// `dead`, `cancelled` or `expired` → the tail of `ready`, with attempts, crashes and snoozes
    /// cleared, and without an expiry. The job acquires its chosen id and its [key](super::Unique)
    /// again. If another job holds the key, the job is not changed.
    Requeue,
    /// `scheduled` or `retry` → the tail of `ready`, as if the job were due. No other property
    /// changes.
    Promote,
    /// Any state but `active` → removed, with its record. A given id is free again.
    Delete,
}

impl Change {
    /// All, in the order in which they are printed.
    pub const ALL: [Change; 4] = [Change::Requeue, Change::Promote, Change::Cancel, Change::Delete];

    /// The verb, as the command line has it: `requeue`.
    pub fn name(self) -> &'static str {
        match self {
            Change::Cancel => "cancel",
            Change::Requeue => "requeue",
            Change::Promote => "promote",
            Change::Delete => "delete",
        }
    }

    /// The past participle for a changed job: `requeued`.
    pub fn done(self) -> &'static str {
        match self {
            Change::Cancel => "cancelled",
            Change::Requeue => "requeued",
            Change::Promote => "promoted",
            Change::Delete => "deleted",
        }
    }

    /// Whether this change applies to jobs in this state.
    pub fn applies_to(self, state: JobState) -> bool {
        match self {
            Change::Cancel => !state.is_final(),
            Change::Requeue => matches!(state, JobState::Dead | JobState::Cancelled | JobState::Expired),
            Change::Promote => matches!(state, JobState::Scheduled | JobState::Retry),
            Change::Delete => state != JobState::Active,
        }
    }
}

impl fmt::Display for Change {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

/// The result of a change for one job.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Changed {
    /// It was changed.
    Yes,
    /// It was changed while it ran. Its handler is cancelled at once, or with the next heartbeat of
    /// its worker if the announcement is lost.
    WhileActive,
    /// The job does not exist, or the change does not [apply](Change::applies_to) to its state.
    No,
    /// The job was not changed, because this job holds its key.
    Held(JobId),
}

impl Changed {
    /// True if the job was changed.
    pub fn done(&self) -> bool {
        matches!(self, Changed::Yes | Changed::WhileActive)
    }
}

impl From<bool> for Changed {
    fn from(done: bool) -> Self {
        if done { Changed::Yes } else { Changed::No }
    }
}
