//! The page Workers: host, release, resource usage, and the time since the last heartbeat.

use std::{collections::BTreeMap, sync::Arc, time::SystemTime};

use askama::Template;
use axum::{
    Extension,
    extract::{RawQuery, State},
    http::StatusCode,
    response::Response,
};
use queue_core::{
    broker::bytes,
    inspect::{WorkerLoad, WorkerRecord},
};

use super::{Content, Stale, full_page, render, worker::badge};
use crate::{
    findings::{is_silent, name},
    format::{Moment, ago, number, short, span},
    guard::Viewer,
    params::{Params, query},
    problem::Problem,
    shared::Shared,
    snapshot::Snapshot,
};

/// Workers on one page.
const PAGE: usize = 100;

/// The maximum number of names of tasks and queues of one worker that are listed. The others are
/// counted.
const NAMES: usize = 60;

#[derive(Template)]
#[template(path = "workers.html")]
struct Page<'a> {
    viewer: &'a Viewer,
    stale: Option<Stale>,
    seen: bool,
    rows: Vec<Row>,
    releases: Vec<(String, usize)>,
    live: usize,
    silent: usize,
    all: usize,
    next: Option<String>,
    from: usize,
}

struct Row {
    id: String,
    name: String,
    release: String,
    queues: Vec<String>,
    more_queues: usize,
    tasks: Vec<String>,
    task_count: u64,
    more_tasks: u64,
    since: Option<Moment>,
    last_seen: String,
    left: String,
    is_live: bool,
    is_silent: bool,
    load: Option<Load>,
    badge: Option<String>,
    holds: Option<String>,
    /// The start of the first job that it runs.
    runs_since: Option<Moment>,
}

/// The resource usage that a worker has reported.
pub(super) struct Load {
    pub(super) busy: String,
    pub(super) slots: String,
    pub(super) memory: String,
    /// Of one core.
    pub(super) cpu: String,
    pub(super) reported: String,
}

impl Load {
    pub(super) fn new(load: &WorkerLoad) -> Self {
        let unknown = || "unknown".to_owned();
        Load {
            busy: number(load.busy),
            slots: number(load.slots),
            memory: load.memory.map_or_else(unknown, bytes),
            cpu: load.cpu_millis.map_or_else(unknown, |millis| format!("{} %", millis / 10)),
            reported: ago(load.age),
        }
    }
}

impl Row {
    fn new(snapshot: &Snapshot, worker: &WorkerRecord, now: SystemTime) -> Self {
        let tasks: Vec<String> = worker.tasks.iter().take(NAMES).cloned().collect();
        let queues: Vec<String> = worker.queues.iter().take(NAMES).cloned().collect();
        Row {
            id: worker.id.to_string(),
            name: name(worker),
            release: short(&worker.release, 40),
            more_queues: worker.queues.len() - queues.len(),
            queues,
            task_count: worker.task_count,
            more_tasks: worker.task_count.saturating_sub(tasks.len() as u64),
            tasks,
            since: worker.since.map(|since| Moment::new(since, now)),
            last_seen: ago(worker.lease_age),
            left: span(worker.lease_left),
            is_live: !worker.lease_left.is_zero(),
            is_silent: is_silent(worker),
            load: worker.load.as_ref().map(Load::new),
            badge: badge(worker),
            holds: snapshot.details.holds.get(&worker.id).map(|(jobs, _)| number(*jobs)),
            runs_since: snapshot.details.holds.get(&worker.id).map(|(_, since)| Moment::new(*since, now)),
        }
    }
}

pub(crate) async fn page(State(shared): State<Arc<Shared>>, Extension(viewer): Extension<Viewer>, RawQuery(query): RawQuery) -> Response {
    match content(&shared, &viewer, &Params::parse(query.unwrap_or_default().as_bytes())).await {
        Ok(content) => full_page(&shared, &viewer, &content),
        Err(problem) => problem.page(&viewer),
    }
}

pub(crate) async fn content(shared: &Shared, viewer: &Viewer, params: &Params) -> Result<Content, Problem> {
    let from = usize::try_from(params.number::<0, 100_000>("from").get()).unwrap_or(0);
    let view = shared.view().await;
    let now = SystemTime::now();
    let mut page = Page {
        viewer,
        stale: Stale::of(&view),
        seen: view.snapshot.is_some(),
        rows: Vec::new(),
        releases: Vec::new(),
        live: 0,
        silent: 0,
        all: 0,
        next: None,
        from,
    };
    if let Some(snapshot) = &view.snapshot {
        let workers = &snapshot.details.workers;
        let mut releases: BTreeMap<String, usize> = BTreeMap::new();
        for worker in workers.iter().filter(|worker| !worker.lease_left.is_zero()) {
            let release = if worker.release.is_empty() { "unknown".to_owned() } else { short(&worker.release, 40) };
            *releases.entry(release).or_default() += 1;
            page.live += 1;
        }
        page.all = workers.len();
        page.silent = workers.iter().filter(|worker| is_silent(worker)).count();
        page.releases = releases.into_iter().collect();
        page.releases.sort_by_key(|(_, workers)| std::cmp::Reverse(*workers));
        page.releases.truncate(6);
        page.rows = workers.iter().skip(from).take(PAGE).map(|worker| Row::new(snapshot, worker, now)).collect();
        let next = from + page.rows.len();
        page.next = (next < page.all).then(|| query(&[("from", &next.to_string())]));
    }
    let status = if page.seen { StatusCode::OK } else { StatusCode::SERVICE_UNAVAILABLE };
    let live = format!("/live/workers?{}", query(&[("from", &from.to_string())]));
    Ok(Content { title: "Workers".to_owned(), tab: "workers", html: render(&page)?, status, live: Some(live), notice: None })
}
