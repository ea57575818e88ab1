//! The failures that stored jobs survive.

use std::fmt;

/// The failures that acknowledged jobs survive, from the least to the most.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
#[non_exhaustive]
pub enum Durability {
    /// None: the jobs are only in memory.
    Volatile,
    /// The end of the broker's process: a crash, `kill -9`, a restart. A power loss takes the jobs
    /// that the operating system has not yet written to the disk.
    ProcessCrash,
    /// A power loss as well: the jobs were on disk before the answer.
    PowerLoss,
}

impl Durability {
    /// The name, as URLs and reports have it.
    pub fn name(self) -> &'static str {
        match self {
            Durability::Volatile => "volatile",
            Durability::ProcessCrash => "process-crash",
            Durability::PowerLoss => "power-loss",
        }
    }

    /// The meaning, as a sentence.
    pub fn meaning(self) -> &'static str {
        match self {
            Durability::Volatile => "jobs are only in memory: they are lost when the broker's process ends",
            Durability::ProcessCrash => "jobs survive a crash of the broker's process; a crash of the machine may lose the newest",
            Durability::PowerLoss => "jobs survive a crash of the machine",
        }
    }
}

impl fmt::Display for Durability {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

/// The condition for which an enqueue waits after the jobs are stored.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Confirm {
    /// The failures that the jobs shall survive.
    pub durability: Durability,
    /// How many replicas shall have the jobs.
    pub replicas: u32,
}

/// The achieved durability of an enqueue, at least. It may be less than requested; the jobs are
/// stored nevertheless.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Confirmed {
    /// The failures that the jobs survive.
    pub durability: Durability,
    /// How many replicas had the jobs when the broker answered.
    pub replicas: u32,
}

impl Confirmed {
    /// Whether this is at least the requested durability.
    pub fn is(self, asked: Confirm) -> bool {
        self.durability >= asked.durability && self.replicas >= asked.replicas
    }
}
