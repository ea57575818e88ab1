//! What a person does to all jobs of a queue in one state. It takes steps of some hundred jobs and ends after a few seconds; the page then says
//! how many are left, and the person goes on if they want to.

use std::time::{Duration, Instant};

use askama::Template;
use axum::http::StatusCode;
use queue_core::{Change, Error, Inspector, JobId, JobState, broker::MAX_ITEMS};

use super::{
    Content,
    act::{Answer, person, see, target},
    whole, written,
};
use crate::{
    format::number,
    guard::Viewer,
    params::{Params, query},
    problem::Problem,
    shared::Shared,
};

/// How long one change may take.
const PATIENCE: Duration = Duration::from_secs(5);

#[derive(Template)]
#[template(path = "confirm_all.html")]
struct Confirm<'a> {
    viewer: &'a Viewer,
    verb: &'static str,
    warning: &'static str,
    queue: &'a str,
    state: &'static str,
    jobs: String,
    back: &'a str,
    /// Where it leads that nothing is done.
    back_to: &'a str,
}

/// What a person should know before all jobs of a state are changed.
fn warning(change: Change) -> &'static str {
    match change {
        Change::Cancel => "Cancelled jobs do not run. Those that run are told to stop, and nothing of what they return counts.",
        Change::Requeue => "All of them run again, with clean counters.",
        Change::Promote => "All of them start as soon as there are free slots.",
        Change::Delete => "Deleted jobs are gone, with their parameters, errors and results. This cannot be undone.",
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
    let there = shared.inspector.stats(&queue).await?.count(state);
    let back = form.get("back").unwrap_or_default();
    if there > 0 && form.get("sure") != Some("yes") {
        let (back_to, jobs) = (target(back, ""), number(there));
        let back_to = back_to.trim_end_matches(['?', '&']);
        let (verb, state) = (change.name(), state.name());
        let html = written(&Confirm { viewer, verb, warning: warning(change), queue: &queue, state, jobs, back, back_to })?;
        let title = format!("{change} all {state} jobs?");
        return Ok(whole(shared, viewer, &Content { title, tab: "jobs", html, status: StatusCode::OK, live: None, told: None }));
    }
    let _turn = shared.list_turn().await?;
    let inspector = shared.inspector.clone().because(form.text::<1024>("reason"));
    let mut changed = 0;
    let ended = steps(&inspector, &queue, change, state, there, &mut changed).await;
    let (who, role) = person(viewer);
    tracing::info!(
        target: "queue_dashboard::audit",
        ?who,
        role,
        action = change.name(),
        queue,
        jobs = "all",
        state = state.name(),
        changed,
        answered = ended.is_ok(),
        "changed by a person"
    );
    shared.outdate().await;
    if let Err(error) = ended {
        let mut problem = Problem::from(error);
        problem.text = format!("{}. {} jobs were changed before.", problem.text.trim_end_matches('.'), number(changed));
        return Err(problem);
    }
    let left = there.saturating_sub(changed);
    let told = query(&[("did", change.name()), ("all", &changed.to_string()), ("left", &left.to_string())]);
    Ok(see(viewer, back, &told))
}

/// Changes as many jobs as there were, in steps, until the time is over.
async fn steps(inspector: &Inspector, queue: &str, change: Change, state: JobState, there: u64, n: &mut u64) -> Result<(), Error> {
    let (end, mut place) = (Instant::now() + PATIENCE, Some(0));
    while let Some(from) = place.filter(|_| *n < there && Instant::now() < end) {
        let page = inspector.list(queue, state, from, MAX_ITEMS).await?;
        let room = usize::try_from(there - *n).unwrap_or(MAX_ITEMS);
        let ids: Vec<JobId> = page.jobs.into_iter().take(room).map(|job| job.address.id).collect();
        let answers = if ids.is_empty() { Vec::new() } else { inspector.change_many(queue, change, &ids).await? };
        let changed = answers.into_iter().filter(|answer| answer.done()).count() as u64;
        *n += changed;
        // Those behind the changed jobs have moved up, or are behind a gap: the same place is read again.
        if changed == 0 {
            place = page.next.filter(|next| *next > from);
        }
    }
    Ok(())
}
