//! The page Search: the jobs of all queues and states that match a filter, page by page, and the
//! progress of the search.

use std::{
    sync::Arc,
    time::{Instant, SystemTime},
};

use askama::Template;
use axum::{
    Extension,
    extract::{RawQuery, State},
    http::StatusCode,
    response::Response,
};
use queue_core::{
    __private::error_text,
    inspect::{Filter, Found, JobRecord},
};

use super::{Content, Stale, full_page, render};
use crate::{
    format::{Moment, number, short, short_id},
    guard::Viewer,
    jobs::{PAGE, PAGES, PATIENCE, next_page, secret_filter_error},
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
    /// The reason why the text is not a valid filter.
    problem: Option<String>,
    /// The results. `None` before the first search.
    found: Option<Part>,
}

/// A part of the matching jobs.
struct Part {
    rows: Vec<Row>,
    examined: String,
    of: String,
    unreadable: Vec<(String, String)>,
    is_first: bool,
    first: String,
    next: Option<String>,
    /// The address of the next page, if the search continues automatically.
    continues: Option<String>,
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
    when_label: &'static str,
}

pub(crate) async fn page(State(shared): State<Arc<Shared>>, Extension(viewer): Extension<Viewer>, RawQuery(query): RawQuery) -> Response {
    match content(&shared, &viewer, &Params::parse(query.unwrap_or_default().as_bytes())).await {
        Ok(content) => full_page(&shared, &viewer, &content),
        Err(problem) => problem.page(&viewer),
    }
}

async fn content(shared: &Shared, viewer: &Viewer, params: &Params) -> Result<Content, Problem> {
    let text = params.text::<1000>("filter");
    let view = shared.view().await;
    let (mut problem, mut found) = (None, None);
    if !text.is_empty() {
        match text.parse::<Filter>() {
            Ok(filter) => match secret_filter_error(&filter) {
                None => found = Some(part(shared, filter, params).await?),
                why => problem = why,
            },
            Err(error) => problem = Some(error.to_string()),
        }
    }
    let page = Page { viewer, stale: Stale::of(&view), filter: &text, problem, found };
    Ok(Content { title: "Search".to_owned(), tab: "search", html: render(&page)?, status: StatusCode::OK, live: None, notice: None })
}

async fn part(shared: &Shared, filter: Filter, params: &Params) -> Result<Part, Problem> {
    let (text, after) = (params.text::<1000>("filter"), params.text::<2000>("after"));
    let _permit = shared.list_permit().await?;
    let (mut search, until) = (shared.inspector.search(filter), Instant::now() + PATIENCE);
    if !after.is_empty() {
        search = search.from(&after)?;
    }
    let (mut jobs, mut unreadable, mut last) = (Vec::new(), Vec::new(), Found::default());
    while jobs.len() < PAGE {
        search = search.page(PAGE - jobs.len());
        let Some(mut found) = search.next().await? else { break };
        jobs.append(&mut found.jobs);
        unreadable.append(&mut found.unreadable);
        last = found;
        if last.cursor.is_none() || Instant::now() >= until {
            break;
        }
    }
    let now = SystemTime::now();
    let next = |page: u64| last.cursor.as_ref().map(|cursor| query(&[("filter", &text), ("after", cursor), ("pages", &page.to_string())]));
    let continues = next_page(params, jobs.len(), last.cursor.is_some() && unreadable.is_empty());
    Ok(Part {
        rows: jobs.iter().map(|job| Row::new(job, &shared.settings.secrets, now)).collect(),
        examined: number(last.examined),
        of: number(last.total),
        unreadable: unreadable.iter().map(|(queue, error)| (queue.clone(), error_text(error))).collect(),
        is_first: after.is_empty(),
        first: query(&[("filter", &text)]),
        // A link stops a search that continues automatically, or lets it continue for another
        // minute.
        next: next(if continues.is_some() { PAGES } else { 0 }),
        continues: continues.and_then(next),
    })
}

impl Row {
    fn new(job: &JobRecord, secrets: &Secrets, now: SystemTime) -> Self {
        let id = job.address.id.to_string();
        let (when, when_label) = match (job.due_at, job.ended_at, job.enqueued_at) {
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
            when_label,
        }
    }
}
