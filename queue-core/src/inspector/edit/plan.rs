//! The job that results from an edit: its envelope, and its key, group and limits, which are
//! derived again.

use std::{
    borrow::Cow,
    collections::BTreeMap,
    time::{Duration, SystemTime, UNIX_EPOCH},
};

use super::{
    Edit, EditChange, Parameters, Time,
    seen::{attempts, group, when},
};
use crate::{
    address::JobAddress,
    broker::{Diagnosis, EditJob, GroupName, JobLimits, LONGEST, LimitKey, SeenJob, UniqueKey},
    codec,
    codec::any_json,
    envelope::{ENVELOPE_VERSION, Envelope},
    error::{Error, Result},
    key,
    payload::{self, to_json, to_value},
    task::TaskDef,
};

/// An edit of one job.
pub(super) struct Plan {
    pub(super) request: EditJob,
    pub(super) changes: Vec<EditChange>,
    pub(super) stale_tags: BTreeMap<String, String>,
}

/// The result of an edit for a job in this state.
pub(super) fn plan(address: &JobAddress, diagnosis: &Diagnosis, edit: &Edit) -> Result<Plan> {
    let (job, now_ms) = (&diagnosis.job, diagnosis.now_ms);
    let old = Envelope::decode(&job.envelope)?;
    if old.version > ENVELOPE_VERSION {
        let problem = "was enqueued by a newer release in a format that this program cannot read; edit it with a program of that release";
        return Err(Error::invalid("job", address.to_string(), problem));
    }
    let task = edit.task;
    if let Some(task) = task.filter(|task| task.name != old.task && !task.aliases.contains(&&*old.task)) {
        return Err(Error::invalid("task", task.name, format!("is not the task of the job, which is `{}`", old.task)));
    }
    let payload = match &edit.payload {
        None => Cow::Borrowed(old.payload),
        // Other bytes of the same parameters do not count as a change.
        Some(Parameters::Json(json)) if is_same(json, task, old.payload) => Cow::Borrowed(old.payload),
        Some(parameters) => Cow::Owned(encoded(&old.task, task, parameters)?),
    };
    let mut new = old.clone();
    new.payload = &payload;
    let mut change = Changes::default();

    let group = new_group(edit, task, &old, &payload, job.group.as_ref())?;
    let unique = new_key(task, &old, &payload, job.unique)?.map(|(key, text)| {
        new.unique = Some(text.into()).filter(|text: &Cow<'_, str>| !text.is_empty());
        key
    });
    let limits = Limits { keys: job.limits.clone(), texts: old.limits.clone() };
    let limits = new_limits(task, &old, &payload, (job.group.as_ref(), group.as_ref()), limits)?;
    new.limits = limits.texts;
    new_tags(task, &old, &mut new)?;
    if let Some(attempts) = edit.max_attempts {
        if attempts == Some(0) {
            return Err(Error::invalid("max_attempts", "0", "must be at least 1; 1 means no retry"));
        }
        new.max_attempts = attempts;
    }
    let seen = SeenJob::new(job.envelope.clone(), job.priority, job.group.clone(), job.at_ms);
    let mut request = EditJob::new(&*address.queue, address.id.clone(), seen);
    request.at_ms = at_ms(edit.time, now_ms)?;
    let retimes = !request.is_time(job.at_ms, now_ms);
    if let Some(at) = request.at_ms.filter(|at| retimes && *at > now_ms) {
        if let Some(expires) = old.expires_ms.filter(|expires| *expires <= at) {
            let problem = format!("is after the job expires, at {}; choose an earlier time", when(Some(expires)));
            return Err(Error::invalid("at", when(Some(at)), problem));
        }
        (new.at_ms, new.delay_ms) = (Some(at), None);
    }

    request.is_new_payload = payload != old.payload;
    if request.is_new_payload {
        change.note("payload", shown(old.payload), shown(&payload));
    }
    if retimes {
        change.note("time", when(job.at_ms), when(request.at_ms.filter(|at| *at > now_ms)));
    }
    request.priority = edit.priority.unwrap_or(job.priority);
    change.note("priority", job.priority.to_string(), request.priority.to_string());
    if job.group != group {
        change.add("group", self::group(job.group.as_ref()), self::group(group.as_ref()));
    }
    change.note("max_attempts", attempts(old.max_attempts), attempts(new.max_attempts));
    if unique.is_some() {
        change.note(
            "unique_key",
            old.unique.as_deref().unwrap_or_default().to_owned(),
            new.unique.as_deref().unwrap_or_default().to_owned(),
        );
    }
    change.note("limits", in_words(&old.limits), in_words(&new.limits));
    let stale_tags = stale_tags(task, &old, &payload);
    change.note("tags", tags_in_words(&old.tags), tags_in_words(&new.tags));
    (request.group, request.unique) = (group, unique);
    request.limits = JobLimits::new(limits.keys, old.cost.unwrap_or(1)).map(Box::new);
    if new != old {
        request.envelope = new.encode()?;
    }
    request.digest = new.digest();
    Ok(Plan { request, changes: change.0, stale_tags })
}

#[derive(Default)]
struct Changes(Vec<EditChange>);

impl Changes {
    fn note(&mut self, field: &'static str, before: String, after: String) {
        if before != after {
            self.add(field, before, after);
        }
    }

    fn add(&mut self, field: &'static str, before: String, after: String) {
        self.0.push(EditChange { field, before, after });
    }
}

fn shown(payload: &[u8]) -> String {
    to_json(payload).unwrap_or_else(|problem| format!("(unreadable: {problem})"))
}

fn in_words(limits: &BTreeMap<String, String>) -> String {
    let one = |(name, key): (&String, &String)| if key.is_empty() { name.clone() } else { format!("{name} of {key}") };
    if limits.is_empty() { "none".to_owned() } else { limits.iter().map(one).collect::<Vec<_>>().join(", ") }
}

fn tags_in_words(tags: &BTreeMap<String, String>) -> String {
    if tags.is_empty() {
        "none".to_owned()
    } else {
        tags.iter().map(|(name, value)| format!("{name}={value}")).collect::<Vec<_>>().join(", ")
    }
}

/// Whether a JSON text has the present parameters. For a known task, an optional parameter may be
/// missing.
fn is_same(json: &str, task: Option<&TaskDef>, payload: &[u8]) -> bool {
    let Ok(own) = to_value(payload) else { return false };
    let whole = |task: &TaskDef, json: &str| to_value(&(task.payload_from_json)(json).ok()?).ok();
    any_json::read(json).is_ok_and(|value| value == own)
        || task.is_some_and(|task| {
            let wanted = whole(task, json);
            wanted.is_some() && (wanted.as_ref() == Some(&own) || wanted == whole(task, &own.to_string()))
        })
}

/// The encoded parameters of a task, checked if the task is known.
fn encoded(name: &str, task: Option<&TaskDef>, parameters: &Parameters) -> Result<Vec<u8>> {
    let encode = |problem| Error::Encode { task: name.to_owned(), problem };
    let payload = match (parameters, task) {
        (Parameters::Encoded(payload), task) => {
            task.map_or(Ok(()), |task| (task.check_payload)(payload))?;
            payload.clone()
        }
        (Parameters::Json(json), Some(task)) => (task.payload_from_json)(json)?,
        (Parameters::Json(json), None) => payload::map_from_json(name, "payload", json)?,
    };
    codec::scan(&payload).map_err(encode)?;
    if !codec::is_map(&payload) {
        return Err(encode("it is not a MessagePack map by parameter name".to_owned()));
    }
    Ok(payload)
}

/// From when on the job may start.
fn at_ms(time: Option<Time>, now_ms: i64) -> Result<Option<i64>> {
    let ms = |time: Duration| i64::try_from(time.as_millis()).unwrap_or(i64::MAX);
    let far = |field: &'static str, value: String| Error::invalid(field, value, "is more than a hundred years away");
    match time {
        None => Ok(None),
        Some(Time::Now) => Ok(Some(0)),
        Some(Time::After(delay)) if delay > LONGEST => Err(far("delay", format!("{delay:?}"))),
        // The clock is cut to whole milliseconds: nothing starts early.
        Some(Time::After(delay)) => Ok(Some(now_ms.saturating_add(ms(delay)).saturating_add(i64::from(!delay.is_zero())))),
        Some(Time::At(time)) => {
            let at = time.duration_since(UNIX_EPOCH).map_or(0, ms);
            if at > now_ms.saturating_add(ms(LONGEST)) { Err(far("at", text_of(time))) } else { Ok(Some(at)) }
        }
    }
}

fn text_of(time: SystemTime) -> String {
    let since = time.duration_since(UNIX_EPOCH).unwrap_or_default();
    format!("{} s after 1970", since.as_secs())
}

/// The requested group. Without one, the group that is derived from the new parameters, if the old
/// group was derived from the old ones.
fn new_group(
    edit: &Edit,
    task: Option<&TaskDef>,
    old: &Envelope<'_>,
    payload: &[u8],
    before: Option<&GroupName>,
) -> Result<Option<GroupName>> {
    if let Some(group) = &edit.group {
        return group.as_deref().map(GroupName::new).transpose();
    }
    match task.and_then(|task| task.group) {
        Some(parameter) if payload != old.payload => match key::group_of_payload(&old.task, parameter, old.payload) {
            Ok(of_old) if of_old.as_ref() == before => key::group_of_payload(&old.task, parameter, payload),
            // It was given.
            _ => Ok(before.cloned()),
        },
        _ => Ok(before.cloned()),
    }
}

/// Replaces the tags that were derived from the old parameters by those of the new ones. Other tags
/// are kept.
fn new_tags(task: Option<&TaskDef>, old: &Envelope<'_>, new: &mut Envelope<'_>) -> Result<()> {
    for (name, parameter) in task.filter(|_| new.payload != old.payload).map_or(&[][..], |task| task.tags) {
        if key::tag_of_payload(&old.task, parameter, old.payload).is_ok_and(|made| made.as_ref() == old.tags.get(*name)) {
            new.tags.remove(*name);
            let made = key::tag_of_payload(&old.task, parameter, new.payload)?;
            new.tags.extend(made.map(|value| ((*name).to_owned(), value)));
        }
    }
    Ok(())
}

/// The tags with the old value of a changed parameter. Without the task it is unknown whether they
/// were derived from the parameter, so they are kept.
fn stale_tags(task: Option<&TaskDef>, old: &Envelope<'_>, payload: &[u8]) -> BTreeMap<String, String> {
    if task.is_some() || payload == old.payload || old.tags.is_empty() {
        return BTreeMap::new();
    }
    let read = |payload: &[u8]| match to_value(payload) {
        Ok(serde_json::Value::Object(map)) => map,
        _ => serde_json::Map::new(),
    };
    let (before, after) = (read(old.payload), read(payload));
    let text = |value: &serde_json::Value| match value {
        serde_json::Value::String(text) => text.clone(),
        other => other.to_string(),
    };
    let is_stale = |value: &str| before.iter().any(|(name, was)| text(was) == value && after.get(name).map(text).as_deref() != Some(value));
    old.tags.iter().filter(|(_, value)| is_stale(value)).map(|(name, value)| (name.clone(), value.clone())).collect()
}

/// The unique key of the new parameters, if the old key was derived from parameters. A key that was
/// set explicitly is kept.
fn new_key(task: Option<&TaskDef>, old: &Envelope<'_>, payload: &[u8], before: Option<UniqueKey>) -> Result<Option<(UniqueKey, String)>> {
    let Some(before) = before.filter(|_| payload != old.payload) else { return Ok(None) };
    let is_of = |by| key::of_payload(&old.task, by, old.payload).is_ok_and(|(key, _)| key == before);
    let is_given = old.unique.as_deref().is_some_and(|text| UniqueKey::given(&old.task, text) == before);
    match task {
        _ if is_given || is_of(Some(&[])) => Ok(None),
        Some(task) => match task.unique.filter(|unique| is_of(unique.by)) {
            Some(unique) => key::of_payload(&old.task, unique.by, payload).map(Some),
            None => Ok(None),
        },
        None => {
            let problem = "cannot be changed here: the unique key of the job is derived from its parameters, and this program does not have the task; \
                           use the worker binary of your application";
            Err(Error::invalid("payload", &*old.task, problem))
        }
    }
}

struct Limits {
    keys: Vec<LimitKey>,
    texts: BTreeMap<String, String>,
}

/// The limits for the new parameters and the new group, if the old ones were derived from the old
/// parameters. A key that was set explicitly is kept.
fn new_limits(
    task: Option<&TaskDef>,
    old: &Envelope<'_>,
    payload: &[u8],
    (old_group, group): (Option<&GroupName>, Option<&GroupName>),
    mut limits: Limits,
) -> Result<Limits> {
    if payload == old.payload && old_group == group {
        return Ok(limits);
    }
    for limit in task.map_or(&[][..], |task| task.limits) {
        let before = key::limit_of_payload(&old.task, limit, old.payload, old_group).ok().flatten();
        let is_given = match &before {
            Some((key, _)) => !limits.keys.contains(key),
            None => limits.texts.contains_key(limit.name),
        };
        if is_given {
            continue;
        }
        if let Some((before, _)) = before {
            limits.keys.retain(|key| *key != before);
            limits.texts.remove(limit.name);
        }
        if let Some((key, text)) = key::limit_of_payload(&old.task, limit, payload, group)? {
            limits.keys.push(key);
            limits.texts.insert(limit.name.to_owned(), text);
        }
    }
    Ok(limits)
}
