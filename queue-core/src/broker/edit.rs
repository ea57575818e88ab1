//! Edits of waiting jobs.

use super::{GroupName, JobLimits, JobState, Priority, UniqueKey};
use crate::address::JobId;

/// Changes a waiting job, if it still has the given version. Applications use
/// [`Inspector::edit`](crate::inspect::Inspector::edit).
///
/// An edit can change the envelope, the priority, the group, the limits, the key and the time of a
/// job. A job that already has the wanted values is not a conflict, so a request without an answer
/// can be repeated.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct EditJob {
    /// The queue.
    pub queue: String,
    /// The job.
    pub id: JobId,
    /// The state that was read.
    pub seen: SeenJob,
    /// The new envelope.
    pub envelope: Vec<u8>,
    /// For a given id: the digest of that envelope.
    pub digest: u64,
    /// Whether its parameters change. A parked job is then ready again, because other releases may
    /// read it.
    pub is_new_payload: bool,
    /// The new priority.
    pub priority: Priority,
    /// The new group, if any.
    pub group: Option<GroupName>,
    /// The new limits, if any.
    pub limits: Option<Box<JobLimits>>,
    /// The new unique key. `None`: the job keeps its key, if it has one.
    pub unique: Option<UniqueKey>,
    /// The new time from which it may start, in broker milliseconds since 1970; at once if that has
    /// passed. `None`: the job keeps its time.
    pub at_ms: Option<i64>,
}

/// The editable state of a job, as it was read.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct SeenJob {
    /// Its envelope.
    pub envelope: Vec<u8>,
    /// Its priority.
    pub priority: Priority,
    /// Its group.
    pub group: Option<GroupName>,
    /// Its time, if it waited for one. A job that has become due since then counts as unchanged.
    pub at_ms: Option<i64>,
}

impl SeenJob {
    /// The state that was read.
    pub fn new(envelope: Vec<u8>, priority: Priority, group: Option<GroupName>, at_ms: Option<i64>) -> Self {
        SeenJob { envelope, priority, group, at_ms }
    }
}

impl EditJob {
    /// An edit without changes, of a job without limits.
    pub fn new(queue: impl Into<String>, id: JobId, seen: SeenJob) -> Self {
        EditJob {
            queue: queue.into(),
            id,
            envelope: seen.envelope.clone(),
            digest: 0,
            is_new_payload: false,
            priority: seen.priority,
            group: seen.group.clone(),
            limits: None,
            unique: None,
            at_ms: None,
            seen,
        }
    }

    /// For brokers: whether a job has the wanted time. `at_ms` is the time for which it waits now,
    /// if any.
    pub fn is_time(&self, at_ms: Option<i64>, now_ms: i64) -> bool {
        match (self.at_ms, at_ms) {
            (None, _) => true,
            (Some(wanted), Some(at)) => wanted == at || wanted <= now_ms && at <= now_ms,
            (Some(wanted), None) => wanted <= now_ms,
        }
    }

    /// For brokers: whether this time is the one that was read.
    pub fn is_time_seen(&self, at_ms: Option<i64>, now_ms: i64) -> bool {
        at_ms == self.seen.at_ms || at_ms.is_none() && self.seen.at_ms.is_some_and(|seen| seen <= now_ms)
    }
}

/// The result of an edit.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum EditedJob {
    /// It was changed.
    Yes,
    /// The job already has the wanted values.
    AsWanted,
    /// The job does not exist.
    Missing,
    /// The job does not wait, but is in this state. It was not changed.
    Closed(JobState),
    /// The job has changed since it was read. It was not changed.
    Differs,
    /// This job holds the new key. The edited job was not changed.
    Held(JobId),
    /// The new group already has `max_size` ready jobs. The job was not changed.
    GroupFull,
}
