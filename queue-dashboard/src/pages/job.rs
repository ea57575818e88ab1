//! The page of one job: its properties, its history, and its actions.

use std::{sync::Arc, time::SystemTime};

use askama::Template;
use axum::{
    Extension,
    extract::{Path, RawQuery, State},
    http::StatusCode,
    response::Response,
};
use queue_core::{
    Error, JobAddress, JobState, Progress,
    broker::bytes,
    inspect::{Filter, JobLog, JobRecord, LogLine, Reason, UnreadableBy, WorkerRecord},
};

use super::{
    Content, Stale, edit, full_page,
    jobs::{Notice, Verb, verbs},
    render,
};
use crate::{
    findings::name,
    format::{Moment, count, short, span},
    guard::Viewer,
    params::{Params, query},
    paths::{job_path, name_in, path_of},
    problem::Problem,
    secrets::Secrets,
    shared::Shared,
    snapshot::Snapshot,
};

/// The maximum number of characters of a JSON text that are shown.
const JSON_MAX: usize = 64 * 1024;

/// The maximum number of bytes that are shown of a job that cannot be decoded.
const BYTES_MAX: usize = 2 * 1024;

/// The maximum number of lines of a log that are shown, which are the last ones.
const LINES_MAX: usize = 200;

#[derive(Template)]
#[template(path = "job.html")]
struct Page<'a> {
    viewer: &'a Viewer,
    stale: Option<Stale>,
    address: String,
    path: String,
    queue: String,
    task: String,
    state: &'static str,
    summary: String,
    waits: Vec<Wait>,
    verbs: Vec<Verb>,
    /// Whether the viewer may edit it now.
    edits: bool,
    /// Whether the viewer may copy it.
    copies: bool,
    back: String,
    facts: Vec<(&'static str, String)>,
    headers: Vec<(String, String)>,
    /// Name, value, and the search for all jobs with the same tag.
    tags: Vec<(String, String, String)>,
    events: Vec<Event>,
    payload: Result<String, String>,
    bytes: Option<String>,
    result: Option<String>,
    progress: Option<Bar>,
    log: Vec<Line>,
    dropped: u64,
}

/// The progress of a job.
pub(super) struct Bar {
    /// In thousandths; `None` if the handler reported no number.
    pub(super) of_1000: Option<u32>,
    pub(super) percent: String,
    pub(super) message: String,
    value: Option<String>,
    when: Moment,
    attempt: u32,
    /// Whether the job has ended. Then this is its last report, and not its present progress.
    ended: bool,
}

/// A line of the log.
struct Line {
    when: Moment,
    level: &'static str,
    attempt: u32,
    text: String,
}

/// A reason why it does not run.
struct Wait {
    text: String,
    until: Option<Moment>,
    /// The end of its worker's lease.
    since: Option<Moment>,
    /// The paths of their pages, and their ids.
    holders: Vec<(String, String)>,
}

impl Wait {
    /// Only for waiting jobs; running and ended jobs show their state.
    fn all(job: &JobRecord, now: SystemTime) -> Vec<Wait> {
        let waits = |reason: &&Reason| !matches!(reason, Reason::Runs(_) | Reason::Ended { .. });
        let wait = |reason: &Reason| {
            let text = reason.to_string();
            let mut letters = text.chars();
            let text = letters.next().into_iter().flat_map(char::to_uppercase).chain(letters).collect();
            let until = reason.until().map(|until| Moment::new(until, now));
            let since = reason.since().map(|since| Moment::new(since, now));
            let holder = |id: String| (job_path(&job.address.queue, &id), id);
            Wait { text, until, since, holders: reason.holders().iter().map(ToString::to_string).map(holder).collect() }
        };
        job.waiting.iter().filter(waits).map(wait).collect()
    }
}

/// A point of the timeline.
struct Event {
    when: Option<Moment>,
    what: String,
    tone: &'static str,
    text: Option<String>,
}

pub(crate) async fn page(
    State(shared): State<Arc<Shared>>,
    Extension(viewer): Extension<Viewer>,
    Path((queue, id)): Path<(String, String)>,
    RawQuery(query): RawQuery,
) -> Response {
    match content(&shared, &viewer, name_in(&queue), name_in(&id), &Params::parse(query.unwrap_or_default().as_bytes())).await {
        Ok(content) => full_page(&shared, &viewer, &content),
        Err(problem) => problem.page(&viewer),
    }
}

pub(crate) async fn content(shared: &Shared, viewer: &Viewer, queue: &str, id: &str, params: &Params) -> Result<Content, Problem> {
    let address: JobAddress = format!("{queue}/{id}").parse()?;
    let mut job = shared.inspector.show(&address).await?;
    shared.inspector.add_reasons(queue, std::slice::from_mut(&mut job)).await?;
    let log = shared.inspector.log(&address, 0).await?;
    let view = shared.view().await;
    let now = SystemTime::now();
    let secrets = &shared.settings.secrets;
    let shown = |json: String| secrets.json(&json).map(|json| cut(json, JSON_MAX));
    let payload = job.payload_json().map_err(|error| error.to_string()).and_then(shown);
    let result = match job.result_json() {
        Ok(json) => json.map(|json| shown(json).unwrap_or_else(|problem| format!("(unreadable: {problem})"))),
        Err(Error::ResultDropped { problem, .. }) => Some(format!("(dropped: {})", secrets.text(&problem))),
        Err(error) => Some(format!("(unreadable: {error})")),
    };
    let page = Page {
        viewer,
        stale: Stale::of(&view),
        address: address.to_string(),
        queue: queue.to_owned(),
        task: job.task.clone().unwrap_or_else(|| "(cannot be decoded)".to_owned()),
        state: job.state.name(),
        summary: summary(&job, view.snapshot.as_deref(), now),
        waits: Wait::all(&job, now),
        verbs: verbs(job.state, viewer),
        edits: viewer.operates() && edit::is_editable(job.state) && job.undecodable.is_none(),
        copies: viewer.operates() && job.undecodable.is_none(),
        back: path_of(&address).trim_start_matches('/').to_owned(),
        path: path_of(&address),
        facts: facts(&job),
        headers: secrets.headers(&job.headers),
        tags: job.tags.iter().map(|(name, value)| (name.clone(), value.clone(), search_of_tag(name, value))).collect(),
        events: events(&job, secrets, view.snapshot.as_deref(), now),
        bytes: payload.is_err().then(|| hex(job.stored())),
        payload,
        result,
        progress: log.progress.as_ref().map(|progress| Bar { ended: job.state.is_final(), ..bar(progress, secrets, now) }),
        dropped: log.dropped + log.lines.len().saturating_sub(LINES_MAX) as u64,
        log: lines(&log, secrets, now),
    };
    let live = format!("/live/job?{}", query(&[("queue", queue), ("id", id)]));
    let title = format!("{} {}", page.task, address);
    Ok(Content { title, tab: "jobs", html: render(&page)?, status: StatusCode::OK, live: Some(live), notice: Notice::of(params) })
}

pub(super) fn bar(progress: &Progress, secrets: &Secrets, now: SystemTime) -> Bar {
    let shown = |json: String| secrets.json(&json).map_or_else(|problem| format!("(unreadable: {problem})"), |json| cut(json, JSON_MAX));
    Bar {
        of_1000: progress.fraction.map(|fraction| (fraction * 1000.0) as u32),
        percent: progress.fraction.map(|fraction| format!("{:.0} %", (fraction * 100.0).floor())).unwrap_or_default(),
        message: secrets.text(&progress.message),
        value: progress.value_json().unwrap_or_else(|error| Some(format!("\"(unreadable: {error})\""))).map(shown),
        when: Moment::new(progress.at, now),
        attempt: progress.attempt,
        ended: false,
    }
}

/// The last lines of a log.
fn lines(log: &JobLog, secrets: &Secrets, now: SystemTime) -> Vec<Line> {
    let skip = log.lines.len().saturating_sub(LINES_MAX);
    let line = |line: &LogLine| Line {
        when: Moment::new(line.at, now),
        level: line.level.name(),
        attempt: line.attempt,
        text: secrets.text(&line.text),
    };
    log.lines.iter().skip(skip).map(line).collect()
}

/// A sentence with the state of a job.
fn summary(job: &JobRecord, snapshot: Option<&Snapshot>, now: SystemTime) -> String {
    let relative = |time: Option<SystemTime>| time.map(|time| Moment::new(time, now).relative);
    match job.state {
        JobState::Scheduled => format!("Due {}.", relative(job.due_at).unwrap_or_default()),
        JobState::Ready => "Ready.".to_owned(),
        JobState::Active => match holder_name(job, snapshot) {
            Some(worker) => format!("Runs on {worker}."),
            None => "Runs.".to_owned(),
        },
        JobState::Retry => {
            format!("Failed {}; the next attempt is due {}.", count_in_words(job.failures), relative(job.due_at).unwrap_or_default())
        }
        JobState::Parked => match &job.unreadable {
            Some(UnreadableBy { releases, dead_at, .. }) => {
                let buried = relative(*dead_at).map(|when| format!(" Otherwise it becomes a dead letter {when}.")).unwrap_or_default();
                format!("Cannot be read by {}: it waits for a worker of another release.{buried}", releases.join(", "))
            }
            None if is_paused(job) => "Parked: its task is paused.".to_owned(),
            None => "Waits for a worker that has its task.".to_owned(),
        },
        JobState::Held => "Held: it waits until the job that holds its unique key has ended.".to_owned(),
        JobState::Done => format!("Done {}.", relative(job.ended_at).unwrap_or_default()),
        JobState::Dead => {
            let why = match job.reason.map(|reason| reason.name()) {
                Some("crashed") => format!("its process crashed {} while it ran", count_in_words(job.crashes)),
                Some("undecodable") => "it cannot be decoded".to_owned(),
                Some("buried") => "its handler buried it".to_owned(),
                _ => format!("it failed {}", count_in_words(job.failures)),
            };
            format!("Dead: {why}. It runs again only if an operator requeues it.")
        }
        JobState::Cancelled => format!("Cancelled {}.", relative(job.ended_at).unwrap_or_default()),
        JobState::Expired => format!("Expired {}: it had not started in time.", relative(job.ended_at).unwrap_or_default()),
        _ => String::new(),
    }
}

/// The worker that holds a job, by name if it is known.
pub(crate) fn holder_name(job: &JobRecord, snapshot: Option<&Snapshot>) -> Option<String> {
    let running = job.running.as_ref()?;
    if !running.host.is_empty() {
        return Some(format!("{}:{}", running.host, running.pid));
    }
    let worker: Option<&WorkerRecord> =
        snapshot.and_then(|snapshot| snapshot.details.workers.iter().find(|worker| worker.id == running.worker));
    Some(worker.map_or_else(|| format!("worker {}", running.worker), name))
}

fn facts(job: &JobRecord) -> Vec<(&'static str, String)> {
    let mut facts = vec![("Priority", job.priority.name().to_owned()), ("Failures", job.failures.to_string())];
    if let Some(attempts) = job.max_attempts {
        facts[1].1 = format!("{} of {attempts}", job.failures);
    }
    let some = |n: u32| (n > 0).then(|| n.to_string());
    let more = [
        ("Crashes", some(job.crashes)),
        ("Snoozes", some(job.snoozes)),
        ("Rate limited", some(job.rate_limited)),
        ("Returns", some(job.returns)),
        ("Timeout", job.timeout.map(span)),
        ("Kept when done", job.retention.map(span)),
        ("Expires", job.expires_at.map(|time| Moment::new(time, SystemTime::now()).exact)),
        // The name of a group may come from parameters, which may be secrets here.
        ("Group", job.group.as_ref().map(ToString::to_string)),
        ("Limits", (!job.limits.is_empty()).then(|| limits(job))),
        ("Cost", (job.cost > 1).then(|| job.cost.to_string())),
        ("Unique key", job.unique.map(|key| key.to_string())),
        ("Size", Some(bytes(job.size() as u64))),
    ];
    facts.extend(more.into_iter().filter_map(|(name, value)| Some((name, value?))));
    facts
}

/// The search for all jobs with a tag.
fn search_of_tag(name: &str, value: &str) -> String {
    query(&[("filter", &format!("tag.{name}={}", Filter::quoted(value)))])
}

/// The limits of a job, and their keys.
fn limits(job: &JobRecord) -> String {
    let limits = job.limits.iter().map(|(name, key)| if key.is_empty() { name.clone() } else { format!("{name} of {key}") });
    short(&limits.collect::<Vec<_>>().join(", "), 200)
}

/// The known events of a job, oldest first, and its next event.
fn events(job: &JobRecord, secrets: &Secrets, snapshot: Option<&Snapshot>, now: SystemTime) -> Vec<Event> {
    let at = |time: Option<SystemTime>| time.map(|time| Moment::new(time, now));
    let event = |when, what: &str, tone| Event { when: at(when), what: what.to_owned(), tone, text: None };
    let mut events = vec![event(job.enqueued_at, "Enqueued", "")];
    // The list has the last failures. The counter has all failures since the job was last requeued.
    let left_out = (job.failures as usize).saturating_sub(job.errors.len());
    if left_out > 0 {
        events.push(event(None, &format!("{} whose errors are no longer kept", count(left_out as u64, "earlier failure")), ""));
    }
    let of_before = job.errors.len().saturating_sub(job.failures as usize);
    for (i, error) in job.errors.iter().enumerate() {
        let what = match i.checked_sub(of_before) {
            Some(i) => format!("Attempt {} failed", left_out + i + 1),
            None => "An attempt failed".to_owned(),
        };
        events.push(Event { text: Some(secrets.text(&error.message)), ..event(error.at, &what, "bad") });
    }
    if job.crashes > 0 {
        events.push(event(
            None,
            &format!(
                "Charged with {}: a worker process crashed while it held the job",
                count(u64::from(job.crashes), "crash").replace("crashs", "crashes")
            ),
            "bad",
        ));
    }
    if job.returns > 0 {
        let what = format!(
            "Returned {} by a worker that stopped{}",
            count_in_words(job.returns),
            if job.returns > 1 { ", the last time" } else { "" }
        );
        events.push(event(job.returned_at, &what, "warn"));
    }
    match job.state {
        JobState::Scheduled => events.push(event(job.due_at, "Due", "next")),
        JobState::Retry => events.push(event(job.due_at, &format!("Attempt {} is due", job.failures + 1), "next")),
        JobState::Ready => events.push(event(None, "Waits for a worker", "next")),
        JobState::Parked => {
            let what = match &job.unreadable {
                Some(_) => "Waits for a release that can read it",
                None if is_paused(job) => "Waits until its task is resumed",
                None => "Waits for a worker that has the task",
            };
            events.push(event(None, what, "warn"));
        }
        JobState::Held => events.push(event(None, "Waits for its unique key", "next")),
        JobState::Active => {
            let on = holder_name(job, snapshot).map(|worker| format!(" on {worker}")).unwrap_or_default();
            events.push(event(job.running.as_ref().map(|running| running.since), &format!("Runs{on}"), "run"));
        }
        JobState::Done => events.push(event(job.ended_at, "Done", "good")),
        JobState::Dead => {
            let why = job.reason.map(|reason| format!("Dead: {}", reason.name())).unwrap_or_else(|| "Dead".to_owned());
            events.push(event(job.ended_at, &why, "bad"));
        }
        JobState::Cancelled => events.push(Event { text: job.note.clone(), ..event(job.ended_at, "Cancelled", "") }),
        JobState::Expired => events.push(event(job.ended_at, "Expired", "")),
        _ => {}
    }
    events
}

fn count_in_words(n: u32) -> String {
    match n {
        1 => "once".to_owned(),
        2 => "twice".to_owned(),
        n => format!("{n} times"),
    }
}

fn cut(mut text: String, characters: usize) -> String {
    if let Some((at, _)) = text.char_indices().nth(characters) {
        text.truncate(at);
        text.push_str("\n… the rest is not shown");
    }
    text
}

fn hex(stored: &[u8]) -> String {
    let (shown, more) = stored.split_at(stored.len().min(BYTES_MAX));
    let mut text = shown
        .chunks(32)
        .map(|line| line.iter().map(|byte| format!("{byte:02x}")).collect::<Vec<_>>().join(" "))
        .collect::<Vec<_>>()
        .join("\n");
    if !more.is_empty() {
        text.push_str(&format!("\n… and {} bytes more", more.len()));
    }
    text
}

/// Whether its task is paused.
fn is_paused(job: &JobRecord) -> bool {
    job.waiting.iter().any(|reason| reason.name() == "task_paused")
}
