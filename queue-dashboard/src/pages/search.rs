//! The page Search: the jobs of all queues and states that match a filter, part by part, and how far the search has come.

use std::{sync::Arc, time::SystemTime};

use askama::Template;
use axum::{
    Extension,
    extract::{RawQuery, State},
    http::StatusCode,
    response::Response,
};
use queue_core::{Filter, JobRecord, outcome::error_text};

use super::{Content, Stale, whole, written};
use crate::{
    format::{Moment, number, short, short_id},
    guard::Viewer,
    jobs::{PAGE, hidden},
    params::{Params, query},
    paths::path_of,
    problem::Problem,
    secrets::Secrets,
    shared::Shared,
};

#[derive(Template)]
#[template(path = "search.html")]
struct Page<'a> {
    viewer: &'a Viewer,
    stale: Option<Stale>,
    filter: &'a str,
    /// Why the text is no filter.
    problem: Option<String>,
    /// What was found; nothing before anything was asked for.
    found: Option<Part>,
}

/// A part of what matches.
struct Part {
    rows: Vec<Row>,
    looked: String,
    of: String,
    unreadable: Vec<(String, String)>,
    is_first: bool,
    first: String,
    next: Option<String>,
}

struct Row {
    address: String,
    path: String,
    short_id: String,
    queue: String,
    task: String,
    state: &'static str,
    failures: u32,
    error: String,
    when: Option<Moment>,
    when_says: &'static str,
}

pub(crate) async fn page(State(shared): State<Arc<Shared>>, Extension(viewer): Extension<Viewer>, RawQuery(query): RawQuery) -> Response {
    match content(&shared, &viewer, &Params::parse(query.unwrap_or_default().as_bytes())).await {
        Ok(content) => whole(&shared, &viewer, &content),
        Err(problem) => problem.page(&viewer),
    }
}

async fn content(shared: &Shared, viewer: &Viewer, params: &Params) -> Result<Content, Problem> {
    let (text, after) = (params.text::<1000>("filter"), params.text::<2000>("after"));
    let look = shared.look().await;
    let (mut problem, mut found) = (None, None);
    if !text.is_empty() {
        match text.parse::<Filter>() {
            Ok(filter) => match hidden(&filter) {
                None => found = Some(part(shared, filter, &text, &after).await?),
                why => problem = why,
            },
            Err(error) => problem = Some(error.to_string()),
        }
    }
    let page = Page { viewer, stale: Stale::of(&look), filter: &text, problem, found };
    Ok(Content { title: "Search".to_owned(), tab: "jobs", html: written(&page)?, status: StatusCode::OK, live: None, told: None })
}

async fn part(shared: &Shared, filter: Filter, text: &str, after: &str) -> Result<Part, Problem> {
    let _turn = shared.list_turn().await?;
    let mut search = shared.inspector.search(filter).page(PAGE);
    if !after.is_empty() {
        search = search.from(after)?;
    }
    let found = search.next().await?.unwrap_or_default();
    let now = SystemTime::now();
    Ok(Part {
        rows: found.jobs.iter().map(|job| Row::new(job, &shared.settings.secrets, now)).collect(),
        looked: number(found.looked),
        of: number(found.of),
        unreadable: found.unreadable.iter().map(|(queue, error)| (queue.clone(), error_text(error))).collect(),
        is_first: after.is_empty(),
        first: query(&[("filter", text)]),
        next: found.cursor.map(|cursor| query(&[("filter", text), ("after", &cursor)])),
    })
}

impl Row {
    fn new(job: &JobRecord, secrets: &Secrets, now: SystemTime) -> Self {
        let id = job.address.id.to_string();
        let (when, when_says) = match (job.due_at, job.ended_at, job.enqueued_at) {
            _ if job.running.is_some() => (job.running.as_ref().map(|running| running.since), "runs since"),
            (Some(due), ..) => (Some(due), "due"),
            (_, Some(ended), _) => (Some(ended), "ended"),
            (.., enqueued) => (enqueued, "enqueued"),
        };
        let error = secrets.error_of(job);
        Row {
            address: job.address.to_string(),
            path: path_of(&job.address),
            short_id: short_id(&id),
            queue: job.address.queue.to_string(),
            task: job.task.clone().unwrap_or_else(|| "(cannot be decoded)".to_owned()),
            state: job.state.name(),
            failures: job.failures,
            error: short(&error.unwrap_or_default(), 140),
            when: when.map(|when| Moment::new(when, now)),
            when_says,
        }
    }
}
