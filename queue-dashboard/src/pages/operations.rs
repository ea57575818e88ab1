//! The page Operations: the changes of all matching jobs of a queue, their progress, and the
//! operations that have ended.

use std::{sync::Arc, time::SystemTime};

use askama::Template;
use axum::{
    Extension,
    extract::{RawQuery, State},
    http::StatusCode,
    response::Response,
};
use futures_util::FutureExt;
use queue_core::inspect::{Operation, OperationState};

use super::{
    CHOICES, Content, QUEUES, QUEUES_AT_ONCE, Stale,
    act::{Answer, redirect_here, user_and_role},
    full_page,
    jobs::Notice,
    operation, render,
    unread::Unread,
};
use crate::{
    format::{Moment, number},
    guard::Viewer,
    params::{Params, query},
    problem::Problem,
    shared::Shared,
    snapshot::together,
};

/// The maximum number of operations on the page: the running ones, then the newest ones.
const ROWS: usize = 100;

#[derive(Template)]
#[template(path = "operations.html")]
struct Page<'a> {
    viewer: &'a Viewer,
    stale: Option<Stale>,
    unread: Unread,
    rows: Vec<Row>,
    queue: &'a str,
    queues: Vec<String>,
    /// Whether not all queues were read.
    is_cut: bool,
}

struct Row {
    queue: String,
    id: String,
    page: String,
    kind: &'static str,
    which: String,
    state: &'static str,
    is_running: bool,
    is_bad: bool,
    percent: u64,
    examined: String,
    changed: String,
    skipped: String,
    failed: String,
    started: Option<Moment>,
    ended: Option<Moment>,
    by: String,
    reason: String,
    problem: String,
}

impl Row {
    fn new(operation: Operation, now: SystemTime) -> Self {
        Row {
            kind: operation.kind.name(),
            state: operation.state.name(),
            is_running: operation.is_running(),
            is_bad: operation.state == OperationState::Failed,
            percent: operation.percent(),
            examined: number(operation.examined),
            changed: number(operation.changed),
            skipped: number(operation.skipped),
            failed: number(operation.failed),
            started: operation.started_at().map(|at| Moment::new(at, now)),
            ended: operation.ended_at().map(|at| Moment::new(at, now)),
            which: if operation.filter.is_empty() { "all".to_owned() } else { operation.filter },
            by: operation.by.unwrap_or_default(),
            reason: operation.reason.unwrap_or_default(),
            problem: operation.problem.unwrap_or_default(),
            page: operation::of(&operation.queue, &operation.id),
            queue: operation.queue,
            id: operation.id,
        }
    }
}

/// The address of the operations of a queue, relative to the base.
pub(super) fn of_queue(queue: &str) -> String {
    format!("operations?{}", query(&[("queue", queue)]))
}

/// The result of the change that has led to this page.
pub(super) fn notice(params: &Params) -> Option<Notice> {
    let (text, is_good) = match params.get("did")? {
        "started" => ("It continues in the background.", true),
        "stopped" => ("It is stopped. Its changes remain.", true),
        "ended" => ("It had ended before.", false),
        _ => return None,
    };
    Some(Notice { text: text.to_owned(), is_good })
}

pub(crate) async fn page(State(shared): State<Arc<Shared>>, Extension(viewer): Extension<Viewer>, RawQuery(query): RawQuery) -> Response {
    match content(&shared, &viewer, &Params::parse(query.unwrap_or_default().as_bytes())).await {
        Ok(content) => full_page(&shared, &viewer, &content),
        Err(problem) => problem.page(&viewer),
    }
}

pub(crate) async fn content(shared: &Shared, viewer: &Viewer, params: &Params) -> Result<Content, Problem> {
    let queue = params.text::<128>("queue");
    let view = shared.view().await;
    let snapshot = view.snapshot.as_deref();
    let names: Vec<String> = snapshot.map(|snapshot| snapshot.queues.iter().map(|queue| queue.name.clone()).collect()).unwrap_or_default();
    let _permit = shared.list_permit().await?;
    let asked: Vec<&String> = names.iter().filter(|name| queue.is_empty() || **name == queue).collect();
    let (mut operations, mut unread) = (Vec::new(), Unread::of(&view, &queue));
    for some in asked.chunks(QUEUES_AT_ONCE).take(QUEUES / QUEUES_AT_ONCE) {
        let calls = some.iter().map(|name| shared.inspector.operations(name).map(move |operations| (*name, operations)).boxed());
        for (name, answer) in together(calls.collect()).await {
            operations.extend(unread.take_or_record(name, answer).into_iter().flatten());
        }
    }
    operations.sort_by_key(|operation: &Operation| (!operation.is_running(), std::cmp::Reverse(operation.started_ms)));
    let now = SystemTime::now();
    let page = Page {
        viewer,
        stale: Stale::of(&view),
        unread,
        is_cut: asked.len() > QUEUES || operations.len() > ROWS,
        rows: operations.into_iter().take(ROWS).map(|operation| Row::new(operation, now)).collect(),
        queues: names.iter().take(CHOICES).cloned().collect(),
        queue: &queue,
    };
    let status = if snapshot.is_some() { StatusCode::OK } else { StatusCode::SERVICE_UNAVAILABLE };
    let live = format!("/live/operations?{}", query(&[("queue", queue.as_str())]));
    Ok(Content {
        title: "Operations".to_owned(),
        tab: "operations",
        html: render(&page)?,
        status,
        live: Some(live),
        notice: notice(params),
    })
}

pub(crate) async fn stop_operation(shared: &Shared, viewer: &Viewer, form: &Params) -> Answer {
    let (queue, id) = (form.text::<128>("queue"), form.text::<64>("id"));
    if queue.is_empty() || id.is_empty() {
        return Err(operation::none());
    }
    let back = if form.get("back") == Some("operation") { operation::of(&queue, &id) } else { of_queue(&queue) };
    // An operation that has ended is not changed, so there is no line in the log.
    if !operation::operation_of_request(shared, form).await?.is_running() {
        return Ok(redirect_here(viewer, &back, "did=ended"));
    }
    let stopped = shared.inspector.stop_operation(&queue, &id).await?;
    let (who, role) = user_and_role(viewer);
    let changed = stopped.changed;
    tracing::info!(target: "queue_dashboard::audit", ?who, role, action = "stop", queue, operation = id, changed, "changed by an operator");
    shared.expire_snapshot().await;
    let did = if stopped.state == OperationState::Stopped { "did=stopped" } else { "did=ended" };
    Ok(redirect_here(viewer, &back, did))
}
