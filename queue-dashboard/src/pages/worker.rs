//! The page of one worker: its resource usage, and its running jobs.

use std::{sync::Arc, time::SystemTime};

use askama::Template;
use axum::{
    Extension,
    extract::{RawQuery, State},
    http::StatusCode,
    response::Response,
};
use queue_core::{
    broker::ProcessId,
    inspect::{JobRecord, WorkerMode, WorkerRecord},
};

use super::{
    Content, Stale, full_page,
    job::{Bar, bar},
    jobs::Notice,
    render,
    workers::Load,
};
use crate::{
    findings::{is_silent, name},
    format::{Moment, ago, short, short_id},
    guard::Viewer,
    params::{Params, query},
    paths::path_of,
    problem::Problem,
    shared::Shared,
};

/// Most jobs that are shown.
const JOBS: usize = 100;

/// Most queues that are named.
const QUEUES: usize = 60;

#[derive(Template)]
#[template(path = "worker.html")]
struct Page<'a> {
    viewer: &'a Viewer,
    stale: Option<Stale>,
    id: String,
    name: String,
    is_silent: bool,
    badge: Option<String>,
    /// Whether it claims, by its last report or the last request to it.
    works: bool,
    can_be_asked: bool,
    facts: Vec<(&'static str, String)>,
    queues: Vec<String>,
    more_queues: usize,
    jobs: Vec<Row>,
    is_whole: bool,
}

struct Row {
    path: String,
    id: String,
    queue: String,
    task: String,
    attempt: u64,
    since: Option<Moment>,
    progress: Option<Bar>,
}

impl Row {
    fn new(shared: &Shared, job: &JobRecord, now: SystemTime) -> Self {
        Row {
            path: path_of(&job.address),
            id: short_id(&job.address.id.to_string()),
            queue: job.address.queue.to_string(),
            task: job.task.as_deref().map_or_else(|| "(cannot be decoded)".to_owned(), |task| short(task, 60)),
            attempt: u64::from(job.failures) + 1,
            since: job.running.as_ref().map(|running| Moment::new(running.since, now)),
            progress: job.progress.as_ref().map(|progress| bar(progress, &shared.settings.secrets, now)),
        }
    }
}

pub(crate) async fn page(State(shared): State<Arc<Shared>>, Extension(viewer): Extension<Viewer>, RawQuery(query): RawQuery) -> Response {
    match content(&shared, &viewer, &Params::parse(query.unwrap_or_default().as_bytes())).await {
        Ok(content) => full_page(&shared, &viewer, &content),
        Err(problem) => problem.page(&viewer),
    }
}

pub(super) fn none() -> Problem {
    Problem::not_found("There is no such worker. It has stopped, and its list of jobs was removed.")
}

/// The worker of the request.
pub(super) fn worker_of_request(params: &Params) -> Result<ProcessId, Problem> {
    params.get("id").and_then(|id| id.parse().ok()).ok_or_else(none)
}

/// The result of the request to the worker.
fn notice(params: &Params) -> Option<Notice> {
    let did = match params.get("did")? {
        "quiet" => "The worker is asked to claim nothing. It receives the request with its next heartbeat, within about 5 s.",
        "works" => "The worker is asked to claim again. It receives the request with its next heartbeat, within about 5 s.",
        "stopping" => "The worker is asked to stop. It receives the request with its next heartbeat, within about 5 s.",
        _ => return None,
    };
    Some(Notice { text: did.to_owned(), is_good: true })
}

/// Whether it is stopping, has stopped in order, or has a stop request. A stop cannot be undone.
pub(super) fn is_stopping(worker: &WorkerRecord) -> bool {
    worker.mode() == WorkerMode::Stopping || worker.unconfirmed_request().is_some_and(|ask| ask.mode == WorkerMode::Stopping)
}

/// A badge with its state, or with the requested state.
pub(super) fn badge(worker: &WorkerRecord) -> Option<String> {
    match (worker.unconfirmed_request(), worker.mode()) {
        (Some(ask), _) => Some(format!("asked: {}", ask.mode)),
        (None, WorkerMode::Works) => None,
        (None, mode) => Some(mode.to_string()),
    }
}

pub(crate) async fn content(shared: &Shared, viewer: &Viewer, params: &Params) -> Result<Content, Problem> {
    let id = worker_of_request(params)?;
    let view = shared.view().await;
    let known = view.snapshot.as_ref().and_then(|snapshot| snapshot.details.workers.iter().find(|worker| worker.id == id));
    let worker = known.ok_or_else(none)?;
    let held = shared.inspector.jobs_of_worker(worker, JOBS).await?;
    let (now, load) = (SystemTime::now(), worker.load.as_ref().map(Load::new));
    let of_load = |of: fn(&Load) -> String| load.as_ref().map_or_else(|| "unknown".to_owned(), of);
    let facts = vec![
        ("Id", id.to_string()),
        ("Release", if worker.release.is_empty() { "unknown".to_owned() } else { short(&worker.release, 60) }),
        ("Slots", of_load(|load| format!("{} of {}", load.busy, load.slots))),
        ("Memory", of_load(|load| load.memory.clone())),
        ("CPU", of_load(|load| load.cpu.clone())),
        ("Reported", of_load(|load| load.reported.clone())),
        ("Up since", worker.since.map_or_else(|| "unknown".to_owned(), |since| Moment::new(since, now).relative)),
        ("Last seen", ago(worker.lease_age)),
    ];
    let queues: Vec<String> = worker.queues.iter().take(QUEUES).cloned().collect();
    let page = Page {
        viewer,
        stale: Stale::of(&view),
        id: id.to_string(),
        name: name(worker),
        is_silent: is_silent(worker),
        badge: badge(worker),
        works: worker.unconfirmed_request().map_or(worker.mode(), |ask| ask.mode) == WorkerMode::Works,
        can_be_asked: worker.load.is_some() && !worker.lease_left.is_zero() && !is_stopping(worker),
        facts,
        more_queues: worker.queues.len() - queues.len(),
        queues,
        jobs: held.jobs.iter().map(|job| Row::new(shared, job, now)).collect(),
        is_whole: held.is_whole,
    };
    let live = format!("/live/worker?{}", query(&[("id", &id.to_string())]));
    let (title, html) = (name(worker), render(&page)?);
    Ok(Content { title, tab: "workers", html, status: StatusCode::OK, live: Some(live), notice: notice(params) })
}
