//! The page Limits: the effective values of each limit, the number of held slots, and whether jobs
//! wait for it.

use std::sync::Arc;

use askama::Template;
use axum::{
    Extension,
    extract::{RawQuery, State},
    http::StatusCode,
    response::Response,
};
use futures_util::FutureExt;
use queue_core::inspect::LimitInfo;

use super::{CHOICES, Content, QUEUES, QUEUES_AT_ONCE, Stale, full_page, jobs::Notice, render, unread::Unread};
use crate::{
    format::number,
    guard::Viewer,
    params::{Params, query},
    problem::Problem,
    shared::Shared,
    snapshot::together,
};

/// Limits on one page. A queue has at most 1,000.
const PAGE: usize = 50;

#[derive(Template)]
#[template(path = "limits.html")]
struct Page<'a> {
    viewer: &'a Viewer,
    stale: Option<Stale>,
    unread: Unread,
    rows: Vec<Row>,
    queue: &'a str,
    queues: Vec<String>,
    first: Option<String>,
    next: Option<String>,
}

struct Row {
    queue: String,
    limit: String,
    /// The address of its page.
    page: String,
    concurrency: String,
    rate: String,
    held: String,
    waiting: String,
    waits: bool,
    source: &'static str,
}

impl Row {
    fn new(queue: &str, limit: LimitInfo) -> Self {
        Row {
            page: of_limit(queue, &limit.name),
            concurrency: limit.rule.concurrency.map_or_else(|| "–".to_owned(), |most| number(most.into())),
            rate: limit.rule.rate.map_or_else(|| "–".to_owned(), |rate| rate.to_string()),
            held: number(limit.held),
            waiting: number(limit.full + limit.rated),
            waits: limit.full + limit.rated > 0,
            source: source_of(&limit),
            queue: queue.to_owned(),
            limit: limit.name,
        }
    }
}

/// The source of the effective values.
pub(super) fn source_of(limit: &LimitInfo) -> &'static str {
    match (limit.set, limit.declared) {
        (Some(_), Some(_)) => "set, over code",
        (Some(_), None) => "set",
        (None, _) => "code",
    }
}

/// The address of the page of a limit, relative to the base.
pub(super) fn of_limit(queue: &str, limit: &str) -> String {
    format!("limit?{}", query(&[("queue", queue), ("limit", limit)]))
}

/// The result of the change that has led to this page.
pub(super) fn notice(params: &Params) -> Option<Notice> {
    let text = match params.get("did")? {
        "set" => "The limit is set. It applies from the next claim on.",
        "removed" => "The setting was removed.",
        _ => return None,
    };
    Some(Notice { text: text.to_owned(), is_good: true })
}

pub(crate) async fn page(State(shared): State<Arc<Shared>>, Extension(viewer): Extension<Viewer>, RawQuery(query): RawQuery) -> Response {
    match content(&shared, &viewer, &Params::parse(query.unwrap_or_default().as_bytes())).await {
        Ok(content) => full_page(&shared, &viewer, &content),
        Err(problem) => problem.page(&viewer),
    }
}

/// The start of a page of the list: a queue, and the number of its limits to skip.
#[derive(Debug, Default)]
struct Place {
    queue: String,
    offset: usize,
}

fn list_address(queue: &str, place: &Place) -> String {
    let offset = if place.offset == 0 { String::new() } else { place.offset.to_string() };
    query(&[("queue", queue), ("at", &place.queue), ("offset", &offset)])
}

pub(crate) async fn content(shared: &Shared, viewer: &Viewer, params: &Params) -> Result<Content, Problem> {
    let queue = params.text::<128>("queue");
    let offset = usize::try_from(params.number::<0, 1000>("offset").get()).unwrap_or_default();
    let place = Place { queue: params.text::<128>("at"), offset };
    let view = shared.view().await;
    let snapshot = view.snapshot.as_deref();
    let names: Vec<String> = snapshot.map(|snapshot| snapshot.queues.iter().map(|queue| queue.name.clone()).collect()).unwrap_or_default();
    let _permit = shared.list_permit().await?;
    let asked_for: Vec<&String> = names.iter().filter(|name| queue.is_empty() || **name == queue).collect();
    let mut unread = Unread::of(&view, &queue);
    let (rows, next) = read_limits(shared, &asked_for, &place, &mut unread).await;
    let is_first = place.queue.is_empty() && place.offset == 0;
    let page = Page {
        viewer,
        stale: Stale::of(&view),
        unread,
        rows,
        queues: names.iter().take(CHOICES).cloned().collect(),
        first: (!is_first).then(|| list_address(&queue, &Place::default())),
        next: next.map(|next| list_address(&queue, &next)),
        queue: &queue,
    };
    let status = if snapshot.is_some() { StatusCode::OK } else { StatusCode::SERVICE_UNAVAILABLE };
    let live = format!("/live/limits?{}", list_address(&queue, &place));
    Ok(Content { title: "Limits".to_owned(), tab: "limits", html: render(&page)?, status, live: Some(live), notice: notice(params) })
}

/// The limits of these queues, by the names of both, and the start of the next page.
async fn read_limits(shared: &Shared, queues: &[&String], from: &Place, unread: &mut Unread) -> (Vec<Row>, Option<Place>) {
    let rest: Vec<&String> = queues.iter().copied().filter(|name| **name >= from.queue).collect();
    let mut rows = Vec::new();
    for some in rest.chunks(QUEUES_AT_ONCE).take(QUEUES / QUEUES_AT_ONCE) {
        let calls = some.iter().map(|name| shared.inspector.limits(name).map(move |limits| (*name, limits)).boxed());
        for (name, limits) in together(calls.collect()).await {
            let Some(limits) = unread.take_or_record(name, limits) else { continue };
            let (skip, room) = (if *name == from.queue { from.offset } else { 0 }, PAGE - rows.len());
            let is_cut = limits.len() > skip + room;
            rows.extend(limits.into_iter().skip(skip).take(room).map(|limit| Row::new(name, limit)));
            if is_cut {
                return (rows, Some(Place { queue: name.clone(), offset: skip + room }));
            }
        }
    }
    (rows, rest.get(QUEUES).map(|name| Place { queue: (*name).clone(), offset: 0 }))
}
