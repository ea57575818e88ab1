//! Enqueues: the jobs of a request, and the result for each.

use std::{
    sync::Arc,
    time::{Duration, Instant},
};

use super::{GroupName, JobLimits, PartyName, Priority, Unique};
use crate::address::JobId;

/// When a job may start.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Due {
    /// As soon as a worker has a free slot: → `ready`.
    #[default]
    Now,
    /// This long after the broker has stored it, by the broker's clock: → `scheduled`.
    After(Duration),
    /// At this time, in milliseconds since 1970, by the broker's clock: → `scheduled`, or `ready`
    /// if the time is past.
    AtMs(i64),
}

/// A job to be stored.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct NewJob {
    /// Its id.
    pub id: JobId,
    /// The encoded envelope.
    pub envelope: Vec<u8>,
    /// When it may start.
    pub due: Due,
    /// Its priority.
    pub priority: Priority,
    /// For a given id: the digest of task and payload that decides between `Existing` and
    /// `IdConflict`. Zero for a generated id.
    pub digest: u64,
    /// Its unique key, if it has one.
    pub unique: Option<Box<Unique>>,
    /// Its group, if it has one.
    pub group: Option<GroupName>,
    /// The limits that it is subject to, if there are any.
    pub limits: Option<Box<JobLimits>>,
}

impl NewJob {
    /// A job that may start now, at normal priority.
    pub fn new(id: JobId, envelope: Vec<u8>) -> Self {
        NewJob { id, envelope, due: Due::Now, priority: Priority::Normal, digest: 0, unique: None, group: None, limits: None }
    }
}

/// Stores jobs of one queue. At most [`MAX_ITEMS`](super::MAX_ITEMS) and
/// [`MAX_BYTES`](super::MAX_BYTES).
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
    /// The digest of a relay's request, see [`relayed`](Self::relayed).
    pub relayed: Option<[u8; 16]>,
    /// The caller's deadline, if it is before [`CALL_DEADLINE`](super::CALL_DEADLINE). It is not
    /// sent to the broker.
    pub until: Option<Instant>,
}

impl Enqueue {
    /// An enqueue of `jobs`.
    pub fn new(queue: impl Into<Arc<str>>, producer: PartyName, seq: u64, jobs: Vec<NewJob>) -> Self {
        Enqueue { queue: queue.into(), producer, seq, jobs, relayed: None, until: None }
    }

    /// An enqueue by the relay of an outbox, which may send jobs again that were stored under
    /// another name. `digest` is that of its rows.
    ///
    /// - The number is answered again only for the same digest. For another digest the answer is
    ///   [`Error::Old`](crate::Error::Old), and nothing is stored: these are not the rows for which
    ///   the number was first used.
    /// - A job whose generated id the broker has, in any state, is answered
    ///   [`Existing`](Enqueued::Existing).
    /// - If a job was answered [`GroupFull`](Enqueued::GroupFull), later jobs of its group are
    ///   answered [`Held`](Enqueued::Held).
    /// - A job that needs a feature which a worker of the queue does not know is answered `Held`,
    ///   and so are later jobs of its group. Other jobs are stored.
    /// - The name is forgotten after thirty times the age of other silent producers.
    #[must_use]
    pub fn relayed(mut self, digest: [u8; 16]) -> Self {
        self.relayed = Some(digest);
        self
    }
}

/// The answer for one job of an enqueue.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Enqueued {
    /// It is stored.
    Stored,
    /// A job of this given id with the same task and payload exists, or its id is remembered.
    Existing,
    /// A job of this given id exists, or is remembered, with another task or payload.
    IdConflict,
    /// It is not stored: this job holds its key.
    Duplicate(JobId),
    /// This job holds its key, has not started, and now has the payload of the new job, its time,
    /// or both.
    Replaced(JobId),
    /// This job, which is the new one unless one waits already, is `held`, with the newest payload,
    /// until its key is free.
    Buffered(JobId),
    /// It is not stored: its group already has `max_size` ready jobs.
    GroupFull,
    /// The job is not stored. Either an earlier job of its group in this enqueue was not stored, or
    /// a worker of an older release does not know a feature that the job needs. For a
    /// [relay](Enqueue::relayed).
    Held,
}

impl Enqueued {
    /// Whether the job itself was stored. `id` is its own.
    pub fn is_new(&self, id: &JobId) -> bool {
        matches!(self, Enqueued::Stored) || matches!(self, Enqueued::Buffered(held) if held == id)
    }
}
