//! Requests of operators to a worker: to claim nothing, to claim again, or to stop. The worker
//! receives a request with its next heartbeat. Each request is a line of the audit log.

use queue_core::inspect::WorkerMode;

use super::{
    act::{Answer, redirect_here, user_and_role},
    confirm::Confirm,
    worker,
};
use crate::{
    findings::name,
    guard::Viewer,
    params::{Params, query},
    problem::Problem,
    shared::Shared,
};

pub(crate) async fn ask(shared: &Shared, viewer: &Viewer, form: &Params, mode: WorkerMode) -> Answer {
    let worker = shared.inspector.worker(worker::worker_of_request(form)?).await?.ok_or_else(worker::none)?;
    let id = worker.id.to_string();
    if worker::is_stopping(&worker) {
        return Err(Problem::late("The worker is stopping or has stopped. A stop request cannot be undone. Nothing was changed."));
    }
    if worker.lease_left.is_zero() {
        return Err(Problem::late("The worker is unreachable: its lease has expired. Nothing was changed."));
    }
    if mode == WorkerMode::Stopping && form.get("sure") != Some("yes") {
        let confirm = Confirm {
            tab: "workers",
            question: format!("Stop the worker {}?", name(&worker)),
            text: "The worker stops claiming, and its running jobs may finish within the grace time, as after SIGTERM. Jobs that have not finished by then run again on other workers. A stop request cannot be undone. The process starts again only if its supervisor restarts it.".to_owned(),
            action: "workers/stop".to_owned(),
            back_to: &format!("worker?id={id}"),
            fields: vec![("id", id.clone())],
            button: "Stop it".to_owned(),
            ..Confirm::default()
        };
        return confirm.page(shared, viewer);
    }
    if worker.load.is_none() {
        return Err(Problem::invalid(
            "The worker has not sent a heartbeat yet: it has just started, or its release cannot be controlled. Nothing was changed.",
        ));
    }
    let (who, role) = user_and_role(viewer);
    let asked = shared.inspector.ask_worker(&worker, mode, &format!("{who} with the dashboard")).await;
    let (action, answered) = (mode.name(), asked.is_ok());
    tracing::info!(target: "queue_dashboard::audit", ?who, role, action, worker = id, answered, "changed by an operator");
    asked?;
    shared.expire_snapshot().await;
    Ok(redirect_here(viewer, &format!("worker?{}", query(&[("id", &id)])), &query(&[("did", mode.name())])))
}
