//! What a person does to a group: pause, resume, a new rule, and the cancel of its jobs, in steps that end after a few seconds; the page then says how many
//! are left, and the person goes on if they want to. Each change is a line of the audit log.

use std::{
    str::FromStr,
    sync::Arc,
    time::{Duration, Instant},
};

use askama::Template;
use axum::{Extension, extract::State, http::StatusCode, response::Response};
use queue_core::{Cleared, Error, GroupName, GroupOrder, PauseOf, RuleOf, StoredGroup};

use super::{
    Content,
    act::{Answer, person, see_here, told},
    group::named,
    groups::{back_to_list, jobs, of_group},
    pauses::pausing,
    whole, written,
};
use crate::{
    format::{number, short},
    guard::{Form, Viewer},
    params::{Params, query},
    problem::Problem,
    shared::Shared,
};

/// How long one cancel may take.
const PATIENCE: Duration = Duration::from_secs(5);

pub(crate) async fn pause(
    State(shared): State<Arc<Shared>>,
    Extension(viewer): Extension<Viewer>,
    Extension(form): Extension<Form>,
) -> Response {
    told(set_paused(&shared, &viewer, &form.0, true).await, &viewer)
}

pub(crate) async fn resume(
    State(shared): State<Arc<Shared>>,
    Extension(viewer): Extension<Viewer>,
    Extension(form): Extension<Form>,
) -> Response {
    told(set_paused(&shared, &viewer, &form.0, false).await, &viewer)
}

pub(crate) async fn set(
    State(shared): State<Arc<Shared>>,
    Extension(viewer): Extension<Viewer>,
    Extension(form): Extension<Form>,
) -> Response {
    told(set_rule(&shared, &viewer, &form.0).await, &viewer)
}

pub(crate) async fn drain(
    State(shared): State<Arc<Shared>>,
    Extension(viewer): Extension<Viewer>,
    Extension(form): Extension<Form>,
) -> Response {
    told(clear(&shared, &viewer, &form.0, Cleared::Waiting).await, &viewer)
}

pub(crate) async fn cancel(
    State(shared): State<Arc<Shared>>,
    Extension(viewer): Extension<Viewer>,
    Extension(form): Extension<Form>,
) -> Response {
    told(clear(&shared, &viewer, &form.0, Cleared::All).await, &viewer)
}

async fn set_paused(shared: &Shared, viewer: &Viewer, form: &Params, paused: bool) -> Answer {
    let (queue, group) = named(shared, form).await?;
    let inspector = &shared.inspector;
    let (action, did) = if paused { ("pause", "paused") } else { ("resume", "resumed") };
    let of = PauseOf::Group(group.clone());
    let changed = if paused { inspector.pause_as(&queue, of, pausing(viewer, form)?).await } else { inspector.resume_of(&queue, of).await };
    noted(viewer, action, &queue, &group, None, changed)?;
    Ok(back(viewer, form, &queue, &group, &query(&[("did", did)])))
}

/// A number in a field of the form, if it has one.
pub(super) fn field<T: FromStr>(form: &Params, name: &'static str) -> Result<Option<T>, Problem> {
    let text = form.text::<40>(name);
    let wrong = || Problem::invalid(format!("The field “{}” is no whole number that fits. Nothing was changed.", name.replace('_', " ")));
    if text.is_empty() { Ok(None) } else { text.parse().map(Some).map_err(|_| wrong()) }
}

async fn set_rule(shared: &Shared, viewer: &Viewer, form: &Params) -> Answer {
    let (queue, group) = named(shared, form).await?;
    let (weight, cap, max_size) = (field(form, "weight")?, field(form, "cap")?, field(form, "max_size")?);
    let order = form.get("order").map(GroupOrder::from_str).transpose()?;
    let of = RuleOf::Group(group.clone());
    let set = shared.inspector.set_group_rule(&queue, &of, |rule| {
        (rule.weight, rule.cap, rule.max_size, rule.order) = (weight, cap, max_size, order);
    });
    let set = set.await.map(drop);
    noted(viewer, "set", &queue, &group, None, set)?;
    Ok(back(viewer, form, &queue, &group, &query(&[("did", "set")])))
}

#[derive(Template)]
#[template(path = "confirm_group.html")]
struct Confirm<'a> {
    viewer: &'a Viewer,
    verb: &'static str,
    title: &'static str,
    queue: &'a str,
    group: &'a str,
    shown: String,
    ready: String,
    active: String,
    runs: bool,
    back_to: String,
}

async fn clear(shared: &Shared, viewer: &Viewer, form: &Params, which: Cleared) -> Answer {
    let (queue, group) = named(shared, form).await?;
    let (verb, title) = if which == Cleared::All { ("cancel", "Cancel all jobs") } else { ("drain", "Cancel the waiting jobs") };
    if form.get("sure") != Some("yes") {
        let StoredGroup { ready, active, .. } = shared.inspector.group(&queue, &group).await?;
        let confirm = Confirm {
            viewer,
            verb,
            title,
            queue: &queue,
            group: group.as_str(),
            shown: short(group.as_str(), 120),
            ready: jobs(ready),
            active: number(active),
            runs: which == Cleared::All,
            back_to: of_group(&queue, group.as_str()),
        };
        let (title, html) = (format!("{title}?"), written(&confirm)?);
        return Ok(whole(shared, viewer, &Content { title, tab: "groups", html, status: StatusCode::OK, live: None, told: None }));
    }
    let _turn = shared.list_turn().await?;
    let inspector = shared.inspector.clone().because(form.text::<1024>("reason"));
    let (mut clearing, end) = (inspector.clear_group(&queue, &group, which), Instant::now() + PATIENCE);
    let ended = loop {
        match clearing.step().await {
            Ok(true) if Instant::now() < end => {}
            Ok(more) => break Ok(more),
            Err(error) => break Err(error),
        }
    };
    let cancelled = clearing.cancelled();
    shared.outdate().await;
    match noted(viewer, verb, &queue, &group, Some(cancelled), ended) {
        Ok(more) => {
            // What waits for a time is not counted by group; one more at least is left.
            let left = if more { shared.inspector.group(&queue, &group).await?.ready.max(1) } else { 0 };
            let told = query(&[("did", "cleared"), ("n", &cancelled.to_string()), ("left", &left.to_string())]);
            Ok(see_here(viewer, &of_group(&queue, group.as_str()), &told))
        }
        Err(mut problem) => {
            problem.text = format!("{}. {} were cancelled before.", problem.text.trim_end_matches('.'), jobs(cancelled));
            Err(problem)
        }
    }
}

/// To the page on which the button was.
fn back(viewer: &Viewer, form: &Params, queue: &str, group: &GroupName, told: &str) -> Response {
    let list = form.get("back").and_then(back_to_list);
    see_here(viewer, &list.unwrap_or_else(|| of_group(queue, group.as_str())), told)
}

/// Who did what. If the broker did not answer, it stands in the log, too: whether it was carried out is not known. The name of a group is any text, and is
/// written as one.
fn noted<T>(
    viewer: &Viewer,
    action: &'static str,
    queue: &str,
    group: &GroupName,
    changed: Option<u64>,
    answer: queue_core::Result<T>,
) -> Result<T, Problem> {
    if matches!(&answer, Err(Error::Invalid { .. })) {
        return answer.map_err(Problem::from);
    }
    let (who, role) = person(viewer);
    let (group, answered) = (group.as_str(), answer.is_ok());
    tracing::info!(target: "queue_dashboard::audit", ?who, role, action, queue, ?group, changed, answered, "changed by a person");
    answer.map_err(Problem::from)
}
