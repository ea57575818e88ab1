//! Changes all jobs of a queue in one state, or those of them with one fingerprint. The change is
//! an operation. If it takes longer than a few seconds, it continues in the background, and the
//! page Operations shows its progress.

use std::time::{Duration, Instant};

use queue_core::{
    Error, JobState,
    inspect::{Change, Filter, Fingerprint, NewOperation, OperationState, RunOperation},
};

use super::{
    act::{Answer, redirect, redirect_here, redirect_target, user_and_role},
    confirm::{Confirm, capitalized},
    operations::of_queue,
};
use crate::{
    format::number,
    guard::Viewer,
    params::{Params, query},
    problem::Problem,
    shared::Shared,
};

/// The maximum time for which a request waits for its end.
const PATIENCE: Duration = Duration::from_secs(5);

/// The maximum number of retries of a step in the background, with a pause before each.
pub(super) const TRIES: u32 = 60;

/// The pause before a failed step is retried.
pub(super) const PAUSE: Duration = Duration::from_secs(1);

/// A warning before all jobs of a state are changed.
fn warning(change: Change) -> &'static str {
    match change {
        Change::Cancel => "Cancelled jobs do not run. Running jobs are asked to stop, and their results are discarded.",
        Change::Requeue => "All of them run again, with their counters reset.",
        Change::Promote => "All of them start as soon as there are free slots.",
        Change::Delete => "The jobs are deleted with their parameters, errors and results. This cannot be undone.",
    }
}

pub(super) async fn change(shared: &Shared, viewer: &Viewer, form: &Params, change: Change) -> Answer {
    let queue = form.text::<128>("queue");
    let state: JobState = form.get("state").unwrap_or_default().parse()?;
    if !shared.inspector.queues().await?.contains(&queue) {
        return Err(Problem::not_found("There is no such queue. Nothing was changed."));
    }
    if !change.applies_to(state) {
        return Err(Problem::invalid(format!("Jobs that are {state} cannot be {}. Nothing was changed.", change.done())));
    }
    let failure: Option<Fingerprint> = form.get("failure").filter(|print| !print.is_empty()).map(str::parse).transpose()?;
    let there = shared.inspector.stats(&queue).await?.count(state);
    let back = form.get("back").unwrap_or_default();
    if there > 0 && form.get("sure") != Some("yes") {
        let (back_to, jobs) = (redirect_target(back, ""), number(there));
        let (verb, state) = (capitalized(change.name()), state.name());
        let quote = match failure {
            Some(print) => text_of(shared, &queue, print).await?,
            None => String::new(),
        };
        let (which, only) = match failure {
            Some(_) => (
                format!("all {state} jobs of {queue} that failed so"),
                format!("{jobs} jobs of the queue are {state}; jobs with another last failure are not changed. "),
            ),
            None => (format!("all {jobs} {state} jobs of {queue}"), String::new()),
        };
        let fields = [("back", back.to_owned()), ("all", "yes".to_owned()), ("queue", queue), ("state", state.to_owned())];
        let failure = failure.map(|print| ("failure", print.to_string()));
        let confirm = Confirm {
            tab: "jobs",
            question: format!("{verb} {which}?"),
            text: format!("{only}{} Jobs that become {state} in the meantime may be included.", warning(change)),
            quote,
            action: format!("jobs/{change}"),
            fields: fields.into_iter().chain(failure).collect(),
            asks_reason: change == Change::Cancel,
            button: format!("{verb} all"),
            back_to: back_to.trim_end_matches(['?', '&']),
            ..Confirm::default()
        };
        return confirm.page(shared, viewer);
    }
    let inspector = shared.inspector.clone().because(form.text::<1024>("reason"));
    let filter: Filter = match failure {
        Some(print) => format!("state={state} failure={print}").parse()?,
        None => format!("state={state}").parse()?,
    };
    let (who, role) = user_and_role(viewer);
    let new = NewOperation::new(change.into(), filter).by(if who == "-" { "" } else { who });
    let started = inspector.start_operation(&queue, &new).await?;
    let mut run = inspector.run_operation(&started);
    let end = Instant::now() + PATIENCE;
    let ended = loop {
        match run.step().await {
            Ok(true) if Instant::now() < end => {}
            Ok(more) => break Ok(more),
            Err(error) => break Err(error),
        }
    };
    let (changed, held) = (run.operation().changed, run.operation().failed);
    tracing::info!(
        target: "queue_dashboard::audit",
        ?who,
        role,
        action = change.name(),
        queue,
        jobs = "all",
        state = state.name(),
        failure = failure.map(|print| print.to_string()),
        operation = started.id,
        changed,
        answered = ended.is_ok(),
        "changed by an operator"
    );
    shared.expire_snapshot().await;
    match ended {
        Ok(false) if run.operation().state == OperationState::Completed => {
            let notice = query(&[("did", change.name()), ("all", &changed.to_string()), ("left", &held.to_string()), ("more", "")]);
            Ok(redirect(viewer, back, &notice))
        }
        // The operation was stopped, has failed, or has another runner. Its page shows that.
        Ok(false) => Ok(redirect_here(viewer, &of_queue(&queue), "")),
        ended => {
            if let Err(error) = &ended {
                tracing::warn!(queue, operation = started.id, %error, "operation still running, continuing in the background");
            }
            tokio::spawn(run_in_background(run));
            Ok(redirect_here(viewer, &of_queue(&queue), "did=started"))
        }
    }
}

/// Runs the operation to its end. After a permanent error, a worker of the queue continues it.
pub(super) async fn run_in_background(mut run: RunOperation) {
    let mut failed = 0;
    loop {
        match run.step().await {
            Ok(true) => failed = 0,
            Ok(false) => {
                let (operation, changed) = (run.operation().address(), run.operation().changed);
                tracing::info!(target: "queue_dashboard::audit", operation, changed, "the operation has ended");
                return;
            }
            Err(error) if error.is_transient() && failed < TRIES => {
                failed += 1;
                tokio::time::sleep(PAUSE).await;
            }
            Err(error) => {
                let operation = run.operation().address();
                tracing::warn!(operation, %error, "operation waits for a worker of its queue");
                return;
            }
        }
    }
}

/// The message of the failures with this fingerprint.
async fn text_of(shared: &Shared, queue: &str, print: Fingerprint) -> Result<String, Error> {
    let known = shared.inspector.failures(queue).await?.into_iter().find(|kind| kind.fingerprint == print);
    Ok(known.map_or_else(|| print.to_string(), |kind| shared.settings.secrets.text(&kind.pattern)))
}
