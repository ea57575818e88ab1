//! The page of one operation: its filter, who started it and why, its progress, and the jobs that
//! it could not change. An operator can stop it, or resume it if its runner has stopped.

use std::{
    sync::Arc,
    time::{SystemTime, UNIX_EPOCH},
};

use askama::Template;
use axum::{
    Extension,
    extract::{RawQuery, State},
    http::StatusCode,
    response::Response,
};
use queue_core::inspect::{Operation, OperationState};

use super::{
    Content, Stale,
    act::{Answer, redirect_here, user_and_role},
    act_all::run_in_background,
    full_page,
    operations::notice,
    render,
};
use crate::{
    format::{Moment, number},
    guard::Viewer,
    params::{Params, query},
    problem::Problem,
    shared::Shared,
};

#[derive(Template)]
#[template(path = "operation.html")]
struct Page<'a> {
    viewer: &'a Viewer,
    stale: Option<Stale>,
    queue: &'a str,
    id: &'a str,
    kind: &'static str,
    done: &'static str,
    filter: &'a str,
    state: &'static str,
    is_running: bool,
    is_left: bool,
    /// Whether a live worker serves its queue.
    is_served: bool,
    is_bad: bool,
    percent: u64,
    counts: Vec<(&'static str, &'static str, String)>,
    started: Option<Moment>,
    stepped: Option<Moment>,
    ended: Option<Moment>,
    by: &'a str,
    reason: &'a str,
    problem: &'a str,
}

/// The address of the page of an operation, relative to the base.
pub(crate) fn of(queue: &str, id: &str) -> String {
    format!("operation?{}", query(&[("queue", queue), ("id", id)]))
}

pub(super) fn none() -> Problem {
    Problem::not_found("There is no such operation. The last 20 of each queue are on the page Operations.")
}

pub(crate) async fn page(State(shared): State<Arc<Shared>>, Extension(viewer): Extension<Viewer>, RawQuery(query): RawQuery) -> Response {
    match content(&shared, &viewer, &Params::parse(query.unwrap_or_default().as_bytes())).await {
        Ok(content) => full_page(&shared, &viewer, &content),
        Err(problem) => problem.page(&viewer),
    }
}

/// The operation of the request.
pub(super) async fn operation_of_request(shared: &Shared, params: &Params) -> Result<Operation, Problem> {
    let (queue, id) = (params.text::<128>("queue"), params.text::<64>("id"));
    // An invalid queue name has no operations.
    if queue.is_empty() || id.is_empty() || !shared.inspector.queues().await?.contains(&queue) {
        return Err(none());
    }
    Ok(shared.inspector.operation(&queue, &id).await?)
}

fn now_ms() -> i64 {
    SystemTime::now().duration_since(UNIX_EPOCH).ok().and_then(|now| i64::try_from(now.as_millis()).ok()).unwrap_or(0)
}

pub(crate) async fn content(shared: &Shared, viewer: &Viewer, params: &Params) -> Result<Content, Problem> {
    let operation = operation_of_request(shared, params).await?;
    let view = shared.view().await;
    let now = SystemTime::now();
    let moment = |at: Option<SystemTime>| at.map(|at| Moment::new(at, now));
    let counts = vec![
        (
            "Examined",
            "of the jobs that existed when it was started",
            format!("{} of about {}", number(operation.examined), number(operation.total)),
        ),
        ("Changed", "", number(operation.changed)),
        ("Skipped", "They do not match, are too new, or have changed state meanwhile", number(operation.skipped)),
        ("Failed", "Another job holds their unique key", number(operation.failed)),
    ];
    let page = Page {
        viewer,
        stale: Stale::of(&view),
        queue: &operation.queue,
        id: &operation.id,
        kind: operation.kind.name(),
        done: operation.kind.done(),
        filter: &operation.filter,
        state: operation.state.name(),
        is_running: operation.is_running(),
        // If the broker's clock is ahead of ours, the runner has not necessarily stopped.
        is_left: operation.is_left(now_ms().max(operation.stepped_ms)),
        is_served: view.snapshot.as_deref().and_then(|all| all.queue(&operation.queue)).is_some_and(|queue| queue.stats.workers > 0),
        is_bad: operation.state == OperationState::Failed,
        percent: operation.percent(),
        counts,
        started: moment(operation.started_at()),
        stepped: moment(operation.stepped_at()).filter(|_| operation.is_running()),
        ended: moment(operation.ended_at()),
        by: operation.by.as_deref().unwrap_or_default(),
        reason: operation.reason.as_deref().unwrap_or_default(),
        problem: operation.problem.as_deref().unwrap_or_default(),
    };
    let live = Some(format!("/live/{}", of(&operation.queue, &operation.id)));
    let (title, html) = (format!("{} · {}", operation.queue, operation.kind), render(&page)?);
    Ok(Content { title, tab: "operations", html, status: StatusCode::OK, live, notice: notice(params) })
}

/// Takes over the operation at once, and continues it in the background.
pub(crate) async fn resume_operation(shared: &Shared, viewer: &Viewer, form: &Params) -> Answer {
    let operation = operation_of_request(shared, form).await?;
    let back = of(&operation.queue, &operation.id);
    if !operation.is_running() {
        return Ok(redirect_here(viewer, &back, "did=ended"));
    }
    let (who, role) = user_and_role(viewer);
    let mut run = shared.inspector.run_operation(&operation).at_once();
    let goes_on = run.step().await?;
    let (queue, id) = (&operation.queue, &operation.id);
    tracing::info!(target: "queue_dashboard::audit", ?who, role, action = "resume", queue, operation = id, "changed by an operator");
    if goes_on {
        tokio::spawn(run_in_background(run));
    }
    shared.expire_snapshot().await;
    Ok(redirect_here(viewer, &back, if goes_on { "did=started" } else { "did=ended" }))
}
