//! What a person asks of a worker: to claim nothing, to claim again, or to stop. The worker hears of it with its next beat. Each request is a
//! line of the audit log.

use askama::Template;
use axum::http::StatusCode;
use queue_core::inspect::WorkerMode;

use super::{
    Content,
    act::{Answer, person, see_here},
    whole, worker, written,
};
use crate::{
    guard::Viewer,
    params::{Params, query},
    problem::Problem,
    problems::name,
    shared::Shared,
};

#[derive(Template)]
#[template(path = "confirm_worker.html")]
struct Confirm<'a> {
    viewer: &'a Viewer,
    name: String,
    id: String,
}

pub(crate) async fn ask(shared: &Shared, viewer: &Viewer, form: &Params, mode: WorkerMode) -> Answer {
    let worker = shared.inspector.worker(worker::named(form)?).await?.ok_or_else(worker::none)?;
    let id = worker.id.to_string();
    if worker::stops(&worker) {
        return Err(Problem::late("The worker is stopping or has stopped. A stop request cannot be undone. Nothing was changed."));
    }
    if worker.lease_left.is_zero() {
        return Err(Problem::late("The worker is unreachable: its lease has expired. Nothing was changed."));
    }
    if mode == WorkerMode::Stopping && form.get("sure") != Some("yes") {
        let html = written(&Confirm { viewer, name: name(&worker), id })?;
        let content = Content { title: "Stop a worker?".to_owned(), tab: "workers", html, status: StatusCode::OK, live: None, told: None };
        return Ok(whole(shared, viewer, &content));
    }
    if worker.load.is_none() {
        return Err(Problem::invalid(
            "The worker has not sent a heartbeat yet: it has just started, or its release cannot be controlled. Nothing was changed.",
        ));
    }
    let (who, role) = person(viewer);
    let asked = shared.inspector.ask_worker(&worker, mode, &format!("{who} with the dashboard")).await;
    let (action, answered) = (mode.name(), asked.is_ok());
    tracing::info!(target: "queue_dashboard::audit", ?who, role, action, worker = id, answered, "changed by an operator");
    asked?;
    shared.outdate().await;
    Ok(see_here(viewer, &format!("worker?{}", query(&[("id", &id)])), &query(&[("did", mode.name())])))
}
