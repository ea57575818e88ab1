//! The kind of an operation, and its progress.

use std::{fmt, str::FromStr};

use serde::Serialize;

use crate::{
    broker::{Change, JobState},
    error::Error,
};

/// The change that an [operation](super::Operation) applies to its jobs.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize)]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum OperationKind {
    /// As [`Change::Requeue`].
    Requeue,
    /// As [`Change::Promote`].
    Promote,
    /// As [`Change::Cancel`].
    Cancel,
    /// As [`Change::Delete`].
    Delete,
    /// Removes all waiting jobs: those that are ready, scheduled, held or parked, or wait for a
    /// retry. They leave no record. Running jobs continue.
    Drain,
    /// Removes all jobs except running ones: waiting jobs, and the records of ended jobs.
    Purge,
}

impl OperationKind {
    /// All, in the order in which they are printed.
    pub const ALL: [OperationKind; 6] = [
        OperationKind::Requeue,
        OperationKind::Promote,
        OperationKind::Cancel,
        OperationKind::Delete,
        OperationKind::Drain,
        OperationKind::Purge,
    ];

    /// The verb, as the command line has it: `requeue`.
    pub fn name(self) -> &'static str {
        match self {
            OperationKind::Drain => "drain",
            OperationKind::Purge => "purge",
            kind => kind.change().name(),
        }
    }

    /// The change of each job.
    pub fn change(self) -> Change {
        match self {
            OperationKind::Requeue => Change::Requeue,
            OperationKind::Promote => Change::Promote,
            OperationKind::Cancel => Change::Cancel,
            OperationKind::Delete | OperationKind::Drain | OperationKind::Purge => Change::Delete,
        }
    }

    /// The past participle for a changed job: `requeued`.
    pub fn done(self) -> &'static str {
        match self {
            OperationKind::Drain | OperationKind::Purge => "removed",
            kind => kind.change().done(),
        }
    }

    /// Whether it changes jobs in this state.
    pub fn applies_to(self, state: JobState) -> bool {
        match self {
            OperationKind::Drain => !state.is_final() && state != JobState::Active,
            kind => kind.change().applies_to(state),
        }
    }

    /// Whether it changes all jobs, without a filter.
    pub fn takes_all(self) -> bool {
        matches!(self, OperationKind::Drain | OperationKind::Purge)
    }
}

impl From<Change> for OperationKind {
    fn from(change: Change) -> Self {
        match change {
            Change::Requeue => OperationKind::Requeue,
            Change::Promote => OperationKind::Promote,
            Change::Cancel => OperationKind::Cancel,
            Change::Delete => OperationKind::Delete,
        }
    }
}

impl fmt::Display for OperationKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

impl FromStr for OperationKind {
    type Err = Error;

    fn from_str(text: &str) -> Result<Self, Error> {
        let known = OperationKind::ALL.into_iter().find(|kind| kind.name() == text);
        known.ok_or_else(|| Error::invalid("operation", text, "is unknown; use one of requeue, promote, cancel, delete, drain, purge"))
    }
}

/// How far an [operation](super::Operation) is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize)]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum OperationState {
    /// It is under way.
    Running,
    /// All jobs were examined.
    Completed,
    /// An operator has stopped it.
    Stopped,
    /// It cannot continue.
    Failed,
}

impl OperationState {
    /// All states.
    pub const ALL: [OperationState; 4] =
        [OperationState::Running, OperationState::Completed, OperationState::Stopped, OperationState::Failed];

    /// In one word: `running`.
    pub fn name(self) -> &'static str {
        match self {
            OperationState::Running => "running",
            OperationState::Completed => "completed",
            OperationState::Stopped => "stopped",
            OperationState::Failed => "failed",
        }
    }

    pub(super) fn from_name(name: &str) -> Option<Self> {
        OperationState::ALL.into_iter().find(|state| state.name() == name)
    }
}

impl fmt::Display for OperationState {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}
