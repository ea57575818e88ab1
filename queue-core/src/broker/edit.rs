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
    /// As it was seen.
    pub seen: SeenJob,
    /// The envelope that it is to have.
    pub envelope: Vec<u8>,
    /// For a given id: the digest of that envelope.
    pub digest: u64,
    /// Whether its parameters change: then a parked job is ready again, as other releases may read
    /// it.
    pub is_new_payload: bool,
    /// The priority that it is to have.
    pub priority: Priority,
    /// The group that it is to have, if any.
    pub group: Option<GroupName>,
    /// The new limits, if any.
    pub limits: Option<Box<JobLimits>>,
    /// The key that it is to have in place of the one that it has. `None`: its key stays, if it has
    /// one.
    pub unique: Option<UniqueKey>,
    /// From when on it may start, in broker milliseconds since 1970; at once if that is over.
    /// `None`: its time stays.
    pub at_ms: Option<i64>,
}

/// What was seen of a job, as far as it can be edited.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct SeenJob {
    /// Its envelope.
    pub envelope: Vec<u8>,
    /// Its priority.
    pub priority: Priority,
    /// Its group.
    pub group: Option<GroupName>,
    /// Its time, if it waited for one. A job that has become due since is as it was seen.
    pub at_ms: Option<i64>,
}

impl SeenJob {
    /// What is seen of a job.
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

    /// For brokers: whether a job that waits for this time now, if it waits for one, has the time
    /// that is wanted.
    pub fn is_time(&self, at_ms: Option<i64>, now_ms: i64) -> bool {
        match (self.at_ms, at_ms) {
            (None, _) => true,
            (Some(wanted), Some(at)) => wanted == at || wanted <= now_ms && at <= now_ms,
            (Some(wanted), None) => wanted <= now_ms,
        }
    }

    /// For brokers: whether this time is the one that was seen.
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
    /// It has already all that is wanted.
    AsWanted,
    /// The job does not exist.
    Missing,
    /// It does not wait: it is in this state, and stays as it is.
    Closed(JobState),
    /// It is not as it was seen, and stays as it is.
    Differs,
    /// It stays as it is: this job holds the key that it would have.
    Held(JobId),
    /// It is unchanged: its new group already has `max_size` ready jobs.
    GroupFull,
}
