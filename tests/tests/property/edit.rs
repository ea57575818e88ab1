//! Edits of jobs that wait, as steps of a story.

use proptest::{option, prelude::*};
use queue_core::{
    __private::Envelope,
    broker::{EditJob, JobLimits, Priority, SeenJob, StoredJob},
};

use crate::{
    job::{group_name, limit_key, unique_key},
    step::{GROUPS, KEYS, LONG, TASK},
};

/// What a person changes of a job.
#[derive(Clone, Debug)]
pub(crate) struct Wanted {
    /// What was seen of the job is not so any more.
    pub(crate) stale: bool,
    pub(crate) payload: Option<u8>,
    pub(crate) priority: Option<Priority>,
    pub(crate) key: Option<u8>,
    /// In so many hours; 0: now.
    pub(crate) hours: Option<u8>,
    /// One of a few, or none, where the jobs of the story have groups.
    pub(crate) group: Option<Option<u8>>,
    /// Where the jobs of the story have limits.
    pub(crate) limits: Option<Vec<u8>>,
}

pub(crate) fn wanted() -> impl Strategy<Value = Wanted> {
    let priority = prop_oneof![Just(Priority::Normal), Just(Priority::Critical), Just(Priority::Low)];
    let key = option::weighted(0.4, 0..KEYS);
    (prop::bool::weighted(0.1), option::of(0..3u8), option::of(priority), key, option::of(0..3u8))
        .prop_map(|(stale, payload, priority, key, hours)| Wanted { stale, payload, priority, key, hours, group: None, limits: None })
}

/// The same in a story whose jobs have groups.
pub(crate) fn grouped(n: usize, wanted: &mut Wanted) {
    wanted.group = [None, Some(0), Some(1), None][n % 4].map(|by: usize| u8::try_from((n / 4 + by) % usize::from(GROUPS)).ok());
}

/// The same in a story whose jobs have limits.
pub(crate) fn limited(n: usize, wanted: &mut Wanted) {
    let key = u8::try_from(n % 3).unwrap_or_default();
    wanted.limits = [None, Some(vec![]), Some(vec![key]), Some(vec![key, 3])].into_iter().nth(n / 2 % 4).flatten();
}

/// The request, of a job as it is.
pub(crate) fn request(queue: &str, record: StoredJob, cost: u32, now_ms: i64, wanted: &Wanted) -> EditJob {
    let mut seen = SeenJob::new(record.envelope, record.priority, record.group, record.at_ms);
    let mut request = EditJob::new(queue, record.id, seen.clone());
    if wanted.stale {
        seen.envelope.push(0);
        request.seen = seen;
    }
    if let Some(payload) = wanted.payload {
        request.envelope = Envelope::new(TASK, &[payload]).encode().expect("a small envelope can be encoded");
        request.is_new_payload = request.envelope != request.seen.envelope;
    }
    if request.id.is_given() {
        request.digest = Envelope::decode(&request.envelope).expect("it is an envelope").digest();
    }
    request.priority = wanted.priority.unwrap_or(request.priority);
    request.unique = wanted.key.map(unique_key);
    let hour = i64::try_from(LONG.as_millis()).expect("it is an hour");
    request.at_ms = wanted.hours.map(|hours| if hours == 0 { 0 } else { now_ms + i64::from(hours) * hour });
    if let Some(group) = wanted.group {
        request.group = group.map(group_name);
    }
    let keys = wanted.limits.as_ref().map_or(record.limits, |keys| keys.iter().map(limit_key).collect());
    request.limits = JobLimits::new(keys, cost).map(Box::new);
    request
}
