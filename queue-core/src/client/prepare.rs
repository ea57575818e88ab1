//! Preparation of a job before it is sent: validation and encoding.

use std::{sync::Arc, time::Duration};

use super::{limits, unique};
use crate::{
    address::{JobAddress, JobId, check_address, check_queue},
    broker::{Due, GroupName, LONGEST, NewJob, Priority},
    draft::{Draft, EnqueueStack, Options},
    envelope::Envelope,
    error::{Error, Result},
    key::{self, UniqueDef},
    limit::LimitDef,
    task::TaskDef,
};

/// A checked, encoded job with its address.
#[derive(Debug)]
pub(super) struct Prepared {
    pub(super) address: JobAddress,
    pub(super) job: NewJob,
    /// The requested retention, if any.
    pub(super) retention: Option<Duration>,
    /// The limits that it names but its task does not declare.
    pub(super) limits: Vec<String>,
}

/// The known properties of a job's task.
pub(super) struct Known<'a> {
    pub(super) task: &'a str,
    pub(super) queue: &'a str,
    pub(super) priority: Priority,
    pub(super) unique: Option<UniqueDef>,
    pub(super) group: Option<&'static str>,
    pub(super) limits: &'static [LimitDef],
    pub(super) tags: &'static [(&'static str, &'static str)],
}

impl Known<'static> {
    pub(super) fn of(task: &TaskDef) -> Self {
        let TaskDef { name, queue, priority, unique, group, limits, tags, .. } = *task;
        Known { task: name, queue, priority, unique, group, limits, tags }
    }
}

pub(super) fn prepare(known: &Known<'_>, payload: &[u8], mut options: Options, on_enqueue: &EnqueueStack) -> Result<Prepared> {
    let &Known { task, queue, priority, unique, group, limits, tags } = known;
    if !on_enqueue.is_empty() {
        on_enqueue.enqueue(&mut Draft::new(task, queue, priority, payload.len(), &mut options))?;
    }
    #[cfg(feature = "otel")]
    crate::observe::otel::inject(&mut options.headers);
    let unique = unique::of(task, unique, payload, &mut options)?;
    let group = match (&options.group, group) {
        (Some(group), _) => Some(GroupName::new(group)?),
        (None, Some(parameter)) => key::group_of_payload(task, parameter, payload)?,
        (None, None) => None,
    };
    let named = options.limits.iter().flat_map(|limits| limits.given.keys());
    let named = named.filter(|name| !limits.iter().any(|limit| limit.name == **name)).cloned().collect();
    let limits = if limits.is_empty() && options.limits.is_none() {
        None
    } else {
        limits::of(task, limits, payload, group.as_ref(), options.limits.take())?
    };
    let queue = match options.queue.as_deref() {
        Some(queue) => check_queue(queue).map(|()| queue)?,
        // It may be the address of a topic.
        None => check_address(queue).map(|()| queue)?,
    };
    let id = options.id.as_deref().map_or_else(|| Ok(JobId::make()), JobId::given)?;
    let now_ms = || on_enqueue.clock().since_1970().as_millis();
    let due = match options.due {
        Due::After(delay) => {
            at_most_longest("delay", Some(delay))?;
            if delay.is_zero() { Due::Now } else { Due::After(delay) }
        }
        Due::AtMs(ms) if u128::try_from(ms).is_ok_and(|ms| ms > now_ms() + LONGEST.as_millis()) => {
            return Err(Error::invalid("at", format!("{ms} ms after 1970"), "is more than a hundred years away"));
        }
        due => due,
    };
    if options.max_attempts == Some(0) {
        return Err(Error::invalid("max_attempts", "0", "must be at least 1; 1 means no retry"));
    }
    if options.timeout == Some(Duration::ZERO) {
        return Err(Error::invalid("timeout", "0s", "must be greater than zero; leave it out for the timeout of the task"));
    }
    let ms = |duration: Duration| u64::try_from(duration.as_millis()).unwrap_or(u64::MAX);
    let mut envelope = Envelope::new(task, payload);
    envelope.max_attempts = options.max_attempts;
    envelope.timeout_ms = at_most_longest("timeout", options.timeout)?.map(ms).map(|ms| ms.max(1));
    envelope.retention_ms = at_most_longest("retention", options.retention)?.map(ms);
    envelope.expires_ms =
        at_most_longest("expires", options.expires)?.map(|after| i64::try_from(now_ms() + after.as_millis()).unwrap_or(i64::MAX));
    match due {
        Due::After(delay) => envelope.delay_ms = Some(ms(delay)),
        Due::AtMs(at) => envelope.at_ms = Some(at),
        Due::Now => {}
    }
    envelope.headers = options.headers;
    envelope.tags = options.tags;
    for (name, parameter) in tags {
        // A tag that was set on the job overrides that of the task.
        if !envelope.tags.contains_key(*name)
            && let Some(value) = key::tag_of_payload(task, parameter, payload)?
        {
            envelope.tags.insert((*name).to_owned(), value);
        }
    }
    let unique = unique.map(|(unique, text)| {
        envelope.unique = (!text.is_empty()).then(|| text.into());
        Box::new(unique)
    });
    let limits = limits.map(|(limits, texts)| {
        envelope.limits = texts;
        envelope.cost = Some(limits.cost).filter(|cost| *cost != 1);
        Box::new(limits)
    });
    let mut job = NewJob::new(id, envelope.encode()?);
    job.due = due;
    (job.unique, job.group, job.limits) = (unique, group, limits);
    job.priority = options.priority.unwrap_or(priority);
    if job.id.is_given() {
        job.digest = envelope.digest();
    }
    Ok(Prepared { address: JobAddress { queue: Arc::from(queue), id: job.id.clone() }, job, retention: options.retention, limits: named })
}

pub(super) fn at_most_longest(field: &'static str, duration: Option<Duration>) -> Result<Option<Duration>> {
    match duration {
        Some(duration) if duration > LONGEST => Err(Error::invalid(field, format!("{duration:?}"), "is more than a hundred years")),
        duration => Ok(duration),
    }
}
