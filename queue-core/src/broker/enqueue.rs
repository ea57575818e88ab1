//! Enqueue: the jobs that go in, and what became of each.

use std::{
    fmt,
    str::FromStr,
    sync::Arc,
    time::{Duration, Instant},
};

use super::PartyName;
use crate::{
    address::{JobId, serde_as_text},
    error::{Error, Result},
};

/// One of four priorities; each queue serves a higher one before all lower ones.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[repr(u8)]
pub enum Priority {
    /// Before everything else.
    Critical = 0,
    /// Before what is normal.
    High = 1,
    /// The default.
    #[default]
    Normal = 2,
    /// When nothing else waits.
    Low = 3,
}

impl Priority {
    /// All, from the first served to the last.
    pub const ALL: [Priority; 4] = [Priority::Critical, Priority::High, Priority::Normal, Priority::Low];

    /// The number in storage, 0 to 3.
    pub fn number(self) -> u8 {
        self as u8
    }

    /// Reads the number in storage.
    pub fn from_number(number: u8) -> Option<Self> {
        Self::ALL.get(usize::from(number)).copied()
    }

    /// The name on the command line and in `#[task(priority = "...")]`.
    pub fn name(self) -> &'static str {
        match self {
            Priority::Critical => "critical",
            Priority::High => "high",
            Priority::Normal => "normal",
            Priority::Low => "low",
        }
    }
}

impl fmt::Display for Priority {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

impl FromStr for Priority {
    type Err = Error;

    /// Reads what [`Display`](fmt::Display) prints.
    fn from_str(text: &str) -> Result<Self> {
        let known = Priority::ALL.map(Priority::name).join(", ");
        let found = Priority::ALL.into_iter().find(|priority| priority.name() == text);
        found.ok_or_else(|| Error::invalid("priority", text, format!("is unknown; use one of {known}")))
    }
}

serde_as_text!(Priority);

/// When a job may start.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Due {
    /// As soon as a worker has a free slot: → `ready`.
    #[default]
    Now,
    /// This long after the broker has stored it, by the broker's clock: → `scheduled`.
    After(Duration),
    /// At this time, in milliseconds since 1970, by the broker's clock: → `scheduled`, or `ready` if the time is past.
    AtMs(i64),
}

/// A job to be stored.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct NewJob {
    /// Its id.
    pub id: JobId,
    /// The encoded [`Envelope`](crate::envelope::Envelope).
    pub envelope: Vec<u8>,
    /// When it may start.
    pub due: Due,
    /// Its priority.
    pub priority: Priority,
    /// For a given id: the digest of task and payload that decides between `Existing` and `IdConflict`. Zero for a generated id.
    pub digest: u64,
}

impl NewJob {
    /// A job that may start now, at normal priority.
    pub fn new(id: JobId, envelope: Vec<u8>) -> Self {
        NewJob { id, envelope, due: Due::Now, priority: Priority::Normal, digest: 0 }
    }
}

/// Stores jobs of one queue. At most [`MAX_ITEMS`](super::MAX_ITEMS) and [`MAX_BYTES`](super::MAX_BYTES).
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct Enqueue {
    /// The queue.
    pub queue: Arc<str>,
    /// The registered producer.
    pub producer: PartyName,
    /// Greater than the last; gaps are allowed.
    pub seq: u64,
    /// The jobs, in order.
    pub jobs: Vec<NewJob>,
    /// The caller's deadline, if it is before [`CALL_DEADLINE`](super::CALL_DEADLINE). It is not sent to the broker.
    pub until: Option<Instant>,
}

impl Enqueue {
    /// An enqueue of `jobs`.
    pub fn new(queue: impl Into<Arc<str>>, producer: PartyName, seq: u64, jobs: Vec<NewJob>) -> Self {
        Enqueue { queue: queue.into(), producer, seq, jobs, until: None }
    }
}

/// The answer for one job of an enqueue.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Enqueued {
    /// It is stored.
    Stored,
    /// A job of this given id with the same task and payload exists, or its id is remembered.
    Existing,
    /// A job of this given id exists, or is remembered, with another task or payload.
    IdConflict,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_priority_is_read_as_it_is_printed() {
        for priority in Priority::ALL {
            assert_eq!(priority.to_string().parse::<Priority>().unwrap(), priority);
            assert_eq!(serde_json::to_value(priority).unwrap(), priority.name());
            assert_eq!(serde_json::from_value::<Priority>(priority.name().into()).unwrap(), priority);
        }
        let problem = "urgent".parse::<Priority>().unwrap_err().to_string();
        assert!(problem.contains("`urgent`") && problem.contains("critical, high, normal, low"), "{problem}");
    }
}
