//! The jobs of stories.

use std::time::Duration;

use queue_core::{
    __private::Envelope,
    JobId,
    broker::{Due, GroupName, JobLimits, NewJob, Unique, UniqueKey},
    inspect::LimitKey,
};

use crate::step::{New, TASK};

pub(crate) fn new_job(new: &New) -> NewJob {
    let payload = vec![new.payload; if new.large { 2048 } else { 1 }];
    let mut envelope = Envelope::new(TASK, &payload);
    envelope.tags = new
        .tag
        .iter()
        .flat_map(|tag| [("all", "yes".to_owned()), ("one", tag.to_string())])
        .map(|(name, value)| (name.to_owned(), value))
        .collect();
    envelope.enqueued_ms = new.enqueued_ms;
    let envelope = envelope.encode().expect("a small envelope can be encoded");
    let id = new.id.map_or_else(JobId::make, |n| JobId::given(&format!("given-{n}")).expect("it is a name"));
    let digest = Envelope::decode(&envelope).expect("it was just encoded").digest();
    let mut job = NewJob::new(id, envelope);
    job.priority = new.priority;
    job.due = if new.delay.is_zero() { Due::Now } else { Due::After(new.delay) };
    job.digest = if job.id.is_given() { digest } else { 0 };
    job.group = new.group.map(group_name);
    job.limits = JobLimits::new(new.limits.iter().map(limit_key).collect(), new.cost).map(Box::new);
    job.unique = new.key.as_ref().map(|key| {
        let mut unique = Unique::new(unique_key(key.key)).hold(key.hold).on_conflict(key.on_conflict);
        (unique.keep_payload, unique.max_wait) = (key.keep_payload, key.at_once.then_some(Duration::ZERO));
        Box::new(unique)
    });
    job
}

pub(crate) fn limit_key(key: &u8) -> LimitKey {
    if *key == 3 { LimitKey::of("all", &[]) } else { LimitKey::of("keyed", &[1 + key]) }
}

pub(crate) fn group_name(group: u8) -> GroupName {
    GroupName::new(format!("{}{group}", "g".repeat(usize::from(group)))).expect("it is a name")
}

pub(crate) fn unique_key(key: u8) -> UniqueKey {
    UniqueKey::of(TASK, &[key])
}
