//! What a person does to all jobs of a queue in one state, or to those of them that failed alike. It takes steps of some hundred jobs and ends after a few seconds; the page then says
//! how many are left, and the person goes on if they want to.

use std::time::{Duration, Instant, SystemTime};

use askama::Template;
use axum::http::StatusCode;
use queue_core::{Change, Error, Filter, Fingerprint, Inspector, JobId, JobState, broker::MAX_ITEMS};

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
    /// The fingerprint and the text of the failures that they have in common.
    failure: Option<(Fingerprint, String)>,
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
    let failure: Option<Fingerprint> = form.get("failure").filter(|print| !print.is_empty()).map(str::parse).transpose()?;
    let there = shared.inspector.stats(&queue).await?.count(state);
    let back = form.get("back").unwrap_or_default();
    if there > 0 && form.get("sure") != Some("yes") {
        let (back_to, jobs) = (target(back, ""), number(there));
        let back_to = back_to.trim_end_matches(['?', '&']);
        let (verb, state) = (change.name(), state.name());
        let failure = match failure {
            Some(print) => Some((print, text_of(&shared.inspector, &queue, print).await?)),
            None => None,
        };
        let html = written(&Confirm { viewer, verb, warning: warning(change), queue: &queue, state, jobs, failure, back, back_to })?;
        let title = format!("{change} all {state} jobs?");
        return Ok(whole(shared, viewer, &Content { title, tab: "jobs", html, status: StatusCode::OK, live: None, told: None }));
    }
    let _turn = shared.list_turn().await?;
    let inspector = shared.inspector.clone().because(form.text::<1024>("reason"));
    let mut changed = 0;
    let mut steps = Steps { inspector: &inspector, queue: &queue, change, state, filter: Filter::default(), there };
    if let Some(print) = failure {
        steps.filter = format!("failure={print}").parse()?;
    }
    let ended = steps.go(&mut changed).await;
    let (who, role) = person(viewer);
    tracing::info!(
        target: "queue_dashboard::audit",
        ?who,
        role,
        action = change.name(),
        queue,
        jobs = "all",
        state = state.name(),
        failure = failure.map(|print| print.to_string()),
        changed,
        answered = ended.is_ok(),
        "changed by a person"
    );
    shared.outdate().await;
    let is_whole = match ended {
        Ok(is_whole) => is_whole,
        Err(error) => {
            let mut problem = Problem::from(error);
            problem.text = format!("{}. {} jobs were changed before.", problem.text.trim_end_matches('.'), number(changed));
            return Err(problem);
        }
    };
    // How many others failed so is not known.
    let left = if failure.is_none() { there.saturating_sub(changed).to_string() } else { u8::from(!is_whole).to_string() };
    let more = if failure.is_some() && !is_whole { "yes" } else { "" };
    let told = query(&[("did", change.name()), ("all", &changed.to_string()), ("left", &left), ("more", more)]);
    Ok(see(viewer, back, &told))
}

/// What those who failed so have said.
async fn text_of(inspector: &Inspector, queue: &str, print: Fingerprint) -> Result<String, Error> {
    let known = inspector.failures(queue).await?.into_iter().find(|kind| kind.fingerprint == print);
    Ok(known.map_or_else(|| print.to_string(), |kind| kind.pattern))
}

struct Steps<'a> {
    inspector: &'a Inspector,
    queue: &'a str,
    change: Change,
    state: JobState,
    filter: Filter,
    there: u64,
}

impl Steps<'_> {
    /// Changes at most as many jobs as there were, in steps, until the time is over. False: the time was over before all were looked at.
    async fn go(&self, n: &mut u64) -> Result<bool, Error> {
        let (end, mut place) = (Instant::now() + PATIENCE, Some(0));
        while let Some(from) = place.filter(|_| *n < self.there) {
            if Instant::now() >= end {
                return Ok(false);
            }
            let page = self.inspector.list(self.queue, self.state, from, MAX_ITEMS).await?;
            let (now, room) = (SystemTime::now(), usize::try_from(self.there - *n).unwrap_or(MAX_ITEMS));
            let wanted = page.jobs.into_iter().filter(|job| self.filter.matches(job, now)).take(room);
            let ids: Vec<JobId> = wanted.map(|job| job.address.id).collect();
            let answers = if ids.is_empty() { Vec::new() } else { self.inspector.change_many(self.queue, self.change, &ids).await? };
            let changed = answers.into_iter().filter(|answer| answer.done()).count() as u64;
            *n += changed;
            // Those behind the changed jobs have moved up, or are behind a gap: the same place is read again.
            if changed == 0 {
                place = page.next.filter(|next| *next > from);
            }
        }
        Ok(true)
    }
}
