//! What survives what.

use std::fmt;

/// What the jobs that a broker has acknowledged survive, from the least to the most.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
#[non_exhaustive]
pub enum Durability {
    /// Nothing: they are in memory alone.
    Volatile,
    /// The end of the broker's process: a crash, `kill -9`, a restart. What the operating system has not yet written to the
    /// disk is lost with the machine.
    ProcessCrash,
    /// The end of the machine as well: they were on disk before the answer.
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

    /// What it means, for people.
    pub fn meaning(self) -> &'static str {
        match self {
            Durability::Volatile => "jobs are in memory alone and end with the broker's process",
            Durability::ProcessCrash => "jobs survive the end of the broker's process; the last ones may be lost with the machine",
            Durability::PowerLoss => "jobs survive the end of the machine",
        }
    }
}

impl fmt::Display for Durability {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

/// What an enqueue waits for beyond being stored.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Confirm {
    /// What the jobs shall survive.
    pub durability: Durability,
    /// How many replicas shall have them.
    pub replicas: u32,
}

/// What an enqueue got, at least. It may be less than what was asked for: the jobs are stored nevertheless.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Confirmed {
    /// What the jobs survive.
    pub durability: Durability,
    /// How many replicas had them when the broker answered.
    pub replicas: u32,
}

impl Confirmed {
    /// Whether it is all that was asked for.
    pub fn is(self, asked: Confirm) -> bool {
        self.durability >= asked.durability && self.replicas >= asked.replicas
    }
}
