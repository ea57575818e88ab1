//! The table of routes, each with the role that it needs. Other routes do not exist.

use std::sync::Arc;

use axum::{
    Extension, Router,
    extract::{Request, State},
    handler::Handler,
    http::{Method, StatusCode, Uri, header::LOCATION},
    middleware::{Next, from_fn, from_fn_with_state},
    response::{IntoResponse, Response},
    routing::{MethodRouter, get, post},
};
use queue_core::inspect::{Change, Cleared, WorkerMode};
use tracing::Instrument as _;

use crate::{
    assets, guard,
    guard::{Form, Viewer},
    live,
    pages::{
        act::{self, Answer},
        act_groups, act_limits, act_schedules, act_topics, act_workers, edit, failures, group, groups, history, job, jobs, limit, limits,
        metrics, operation, operations, overview, queues, schedule, schedules, search, sign_in, topic, topics, watch, worker, workers,
    },
    problem::Problem,
    role::Role,
    shared::Shared,
};

/// A route and its role. `None`: every client that can reach the address may use it.
pub(crate) struct Route {
    pub(crate) method: &'static str,
    pub(crate) path: &'static str,
    pub(crate) least: Option<Role>,
    handler: MethodRouter<Arc<Shared>>,
}

/// A change: the handler gets the form that the guard has read, and its error becomes a page.
macro_rules! act {
    ($path:literal, $least:ident, $page:ident::$act:ident($($argument:expr)?)) => {
        changes(
            $path,
            Some(Role::$least),
            |State(shared): State<Arc<Shared>>, Extension(viewer): Extension<Viewer>, Extension(form): Extension<Form>| async move {
                let answer: Answer = $page::$act(&shared, &viewer, &form.0 $(, $argument)?).await;
                answer.unwrap_or_else(|problem| problem.page(&viewer))
            },
        )
    };
}

/// All routes of a dashboard with these settings.
pub(crate) fn table(read_only: bool, signs_in: bool) -> Vec<Route> {
    let view = Some(Role::View);
    let mut table = vec![
        reads("/", view, overview::page),
        reads("/queues", view, queues::page),
        reads("/jobs", view, jobs::page),
        reads("/jobs/{queue}/{id}", view, job::page),
        reads("/search", view, search::page),
        reads("/watch", view, watch::page),
        reads("/failures", view, failures::page),
        reads("/schedules", view, schedules::page),
        reads("/schedules/{queue}/{schedule}", view, schedule::page),
        reads("/groups", view, groups::page),
        reads("/group", view, group::page),
        reads("/limits", view, limits::page),
        reads("/limit", view, limit::page),
        reads("/operations", view, operations::page),
        reads("/operation", view, operation::page),
        reads("/topics", view, topics::page),
        reads("/topic", view, topic::page),
        reads("/workers", view, workers::page),
        reads("/worker", view, worker::page),
        reads("/history", view, history::page),
        reads("/metrics", view, metrics::page),
        reads("/live/{page}", view, live::stream),
        // They contain no data, and the sign-in page needs them.
        reads("/assets/{name}", None, assets::asset),
    ];
    if !read_only {
        table.extend([
            act!("/queues/pause", Operate, act::set_paused(true)),
            act!("/queues/resume", Operate, act::set_paused(false)),
            act!("/jobs/requeue", Operate, act::change(Change::Requeue)),
            act!("/jobs/promote", Operate, act::change(Change::Promote)),
            reads("/jobs/{queue}/{id}/edit", Some(Role::Operate), edit::page),
            reads("/jobs/{queue}/{id}/duplicate", Some(Role::Operate), edit::copy_page),
            act!("/jobs/edit", Operate, edit::change_job()),
            act!("/jobs/duplicate", Operate, edit::copy_job()),
            act!("/jobs/cancel", Operate, act::change(Change::Cancel)),
            act!("/jobs/delete", Admin, act::change(Change::Delete)),
            act!("/schedules/pause", Operate, act_schedules::set_paused(true)),
            act!("/schedules/resume", Operate, act_schedules::set_paused(false)),
            act!("/schedules/run", Operate, act_schedules::run_now()),
            act!("/schedules/backfill", Operate, act_schedules::fill()),
            act!("/groups/pause", Operate, act_groups::set_paused(true)),
            act!("/groups/resume", Operate, act_groups::set_paused(false)),
            act!("/groups/set", Operate, act_groups::set_rule()),
            act!("/groups/drain", Operate, act_groups::clear(Cleared::Waiting)),
            act!("/groups/cancel", Operate, act_groups::clear(Cleared::All)),
            act!("/limits/set", Operate, act_limits::set_limit()),
            act!("/workers/quiet", Operate, act_workers::ask(WorkerMode::Quiet)),
            act!("/workers/resume", Operate, act_workers::ask(WorkerMode::Works)),
            act!("/workers/stop", Operate, act_workers::ask(WorkerMode::Stopping)),
            act!("/limits/remove", Operate, act_limits::reset_limit()),
            act!("/operations/stop", Operate, operations::stop_operation()),
            act!("/operations/resume", Operate, operation::resume_operation()),
            act!("/topics/rewind", Operate, act_topics::start_rewind()),
        ]);
    }
    if signs_in {
        table.push(changes("/sign-in", None, sign_in::sign_in));
    }
    table
}

fn reads<T: 'static>(path: &'static str, least: Option<Role>, handler: impl Handler<T, Arc<Shared>>) -> Route {
    Route { method: "GET", path, least, handler: get(handler) }
}

fn changes<T: 'static>(path: &'static str, least: Option<Role>, handler: impl Handler<T, Arc<Shared>>) -> Route {
    Route { method: "POST", path, least, handler: post(handler) }
}

pub(crate) fn router<S: Clone + Send + Sync + 'static>(shared: Arc<Shared>) -> Router<S> {
    let mut router = Router::new();
    for Route { path, least, handler, .. } in table(shared.settings.read_only, shared.settings.sign_in.is_some()) {
        let checked =
            handler.layer(from_fn(move |viewer: Extension<Viewer>, request: Request, next: Next| check(least, viewer, request, next)));
        router = router.route(path, checked);
    }
    router
        .fallback(no_such_page)
        .method_not_allowed_fallback(async |Extension(viewer): Extension<Viewer>| answer_of(&viewer, Problem::method()))
        .layer(from_fn_with_state(shared.clone(), guard::guard))
        .with_state(shared)
}

/// Redirects a path with a trailing slash to the path without it.
async fn no_such_page(Extension(viewer): Extension<Viewer>, uri: Uri) -> Response {
    let path = uri.path().trim_end_matches('/');
    if path != uri.path() {
        let query = uri.query().map_or_else(String::new, |query| format!("?{query}"));
        return (StatusCode::PERMANENT_REDIRECT, [(LOCATION, viewer.address(&format!("{path}{query}")))]).into_response();
    }
    answer_of(&viewer, Problem::not_found("There is no such page."))
}

/// A visitor without access cannot find out which pages exist.
fn answer_of(viewer: &Viewer, problem: Problem) -> Response {
    if viewer.person.is_some() { problem.page(viewer) } else { Problem::unauthenticated().page(viewer) }
}

async fn check(least: Option<Role>, Extension(viewer): Extension<Viewer>, request: Request, next: Next) -> Response {
    match (least, viewer.person.as_ref()) {
        (None, _) => complete_change(request, next).await,
        (Some(least), Some(person)) if person.role() >= least => complete_change(request, next).await,
        (Some(least), Some(_)) => Problem::forbidden(least).page(&viewer),
        (Some(_), None) => Problem::unauthenticated().page(&viewer),
    }
    .into_response()
}

/// Completes and logs a change even if the client closes the page and thereby drops the future of
/// the request.
async fn complete_change(request: Request, next: Next) -> Response {
    if request.method() != Method::POST {
        return next.run(request).await;
    }
    let path = request.uri().path().to_owned();
    let change = tokio::spawn(next.run(request).in_current_span());
    change.await.unwrap_or_else(|error| {
        tracing::error!(%error, path, "a change panicked; its effect is unknown");
        (StatusCode::INTERNAL_SERVER_ERROR, "the change has failed: see the log").into_response()
    })
}
