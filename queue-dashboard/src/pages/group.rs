//! The page of one group: its waiting and running jobs, its rule, and its actions.

use std::sync::Arc;

use askama::Template;
use axum::{
    Extension,
    extract::{RawQuery, State},
    http::StatusCode,
    response::Response,
};
use queue_core::{
    Error, JobAddress, JobId,
    inspect::{Filter, GroupName, GroupOrder, GroupRule, Reason},
};

use super::{
    Content, Stale, full_page,
    groups::{Badge, encoded, jobs, notice},
    render,
};
use crate::{
    format::{number, short, short_id, span},
    guard::Viewer,
    params::{Params, query},
    paths::job_path,
    problem::Problem,
    shared::Shared,
};

/// The number of its next jobs that are shown.
const NEXT: usize = 10;

#[derive(Template)]
#[template(path = "group.html")]
struct Page<'a> {
    viewer: &'a Viewer,
    stale: Option<Stale>,
    queue: &'a str,
    encoded: String,
    title: String,
    badge: Badge,
    summary: String,
    facts: Vec<(&'static str, String)>,
    /// The holder of the line: the path of its page, and its address.
    holder: Option<(String, String)>,
    next: Vec<(String, String)>,
    more: u64,
    /// The list of its running jobs, if a filter can express it.
    running: Option<String>,
    weight: String,
    cap: String,
    max_size: String,
    order: &'static str,
    orders: [GroupOrder; 3],
}

pub(crate) async fn page(State(shared): State<Arc<Shared>>, Extension(viewer): Extension<Viewer>, RawQuery(query): RawQuery) -> Response {
    match content(&shared, &viewer, &Params::parse(query.unwrap_or_default().as_bytes())).await {
        Ok(content) => full_page(&shared, &viewer, &content),
        Err(problem) => problem.page(&viewer),
    }
}

/// The queue and the group of the request, if the queue exists.
pub(super) async fn group_of_request(shared: &Shared, params: &Params) -> Result<(String, GroupName), Problem> {
    let none = || Problem::not_found("There is no such group. Nothing was changed.");
    let queue = params.text::<128>("queue");
    let encoded = params.get("group_encoded").map(|name| Params::parse(format!("name={name}").as_bytes()));
    let name = encoded.as_ref().map_or_else(|| params.get("group"), |encoded| encoded.get("name"));
    let group = name.and_then(|name| GroupName::new(name).ok()).ok_or_else(none)?;
    let known = shared.inspector.queues().await?.contains(&queue);
    if known { Ok((queue, group)) } else { Err(none()) }
}

pub(crate) async fn content(shared: &Shared, viewer: &Viewer, params: &Params) -> Result<Content, Problem> {
    let (queue, name) = group_of_request(shared, params).await?;
    let group = shared.inspector.group(&queue, &name).await?;
    let all = shared.inspector.groups(&queue, None, 1).await?;
    let next = shared.inspector.group_line(&queue, &name, NEXT).await?;
    let view = shared.view().await;
    let holds = group.rule.over(all.defaults());
    let with_source = |value: String, field: fn(&GroupRule) -> bool| match all.source_of(&group.rule, field) {
        "group" | "default" => value,
        "code" => format!("{value} (declared in code)"),
        source => format!("{value} (of {source})"),
    };
    let mut badge = Badge::of(&group, holds, false);
    let first = match next.first().filter(|_| badge.word == "ready") {
        Some(id) => reason_of(shared, &queue, id).await?,
        None => None,
    };
    if badge.word == "ready" {
        (badge.word, badge.tone) = word_for(first.as_ref());
    }
    let own = |number: Option<u64>| number.map(|number| number.to_string()).unwrap_or_default();
    let bound = |bound: Option<u64>| bound.map_or_else(|| "none".to_owned(), number);
    let facts = vec![
        ("Ready", number(group.ready)),
        ("Oldest ready", group.oldest.map_or_else(|| "–".to_owned(), span)),
        ("Running", holds.cap.map_or_else(|| number(group.active), |cap| format!("{} of {cap}", number(group.active)))),
        ("Weight", with_source(holds.weight.unwrap_or(1).to_string(), |rule| rule.weight.is_some())),
        ("Most at once", with_source(bound(holds.cap.map(u64::from)), |rule| rule.cap.is_some())),
        ("Largest size", with_source(bound(holds.max_size), |rule| rule.max_size.is_some())),
        ("Order", with_source(holds.order.unwrap_or_default().to_string(), |rule| rule.order.is_some())),
    ];
    let summary = match (badge.word, badge.why.as_str()) {
        ("paused", "") => "Paused: none of its jobs is claimed; running jobs continue.".to_owned(),
        ("paused", why) => format!("Paused: {}. None of its jobs is claimed; running jobs continue.", why.trim_end_matches('.')),
        ("closed", _) => "Closed: its cap is 0, so none of its jobs is claimed.".to_owned(),
        ("held", _) => "One of its jobs blocks the group: the others wait until that job has ended.".to_owned(),
        ("full", _) => "The group is at its cap: the next job starts when a running one ends.".to_owned(),
        ("in rotation", _) if group.ready == 1 => "1 job waits behind others.".to_owned(),
        ("in rotation", _) => format!("{} wait behind others.", jobs(group.ready)),
        _ if group.ready > 0 => {
            let are = if group.ready == 1 { "is" } else { "are" };
            let why = first.map(|reason| format!(" The first does not run: {}.", reason.to_string().trim_end_matches('.')));
            format!("{} {are} ready.{}", jobs(group.ready), why.unwrap_or_default())
        }
        ("runs", _) => "No job of it waits.".to_owned(),
        _ => "It has no ready or running jobs.".to_owned(),
    };
    let page = Page {
        viewer,
        stale: Stale::of(&view),
        title: short(name.as_str(), 120),
        summary,
        facts,
        holder: group.blocked_by.as_ref().map(|job| (job_path(&queue, &job.to_string()), format!("{queue}/{job}"))),
        more: group.ready.saturating_sub(next.len() as u64),
        next: next.into_iter().map(|id| (job_path(&queue, &id.to_string()), short_id(&id.to_string()))).collect(),
        running: of_running(&queue, name.as_str()).filter(|_| group.active > 0),
        weight: own(group.rule.weight.map(u64::from)),
        cap: own(group.rule.cap.map(u64::from)),
        max_size: own(group.rule.max_size),
        order: group.rule.order.map_or("", GroupOrder::name),
        orders: GroupOrder::ALL,
        badge,
        queue: &queue,
        encoded: encoded(name.as_str()),
    };
    let live = format!("/live/group?{}", query(&[("queue", &queue), ("group", name.as_str())]));
    let (title, html) = (format!("{queue} · {}", short(name.as_str(), 60)), render(&page)?);
    Ok(Content { title, tab: "groups", html, status: StatusCode::OK, live: Some(live), notice: notice(params) })
}

/// The reason why the next job does not run, if it still exists and is ready.
pub(super) async fn reason_of(shared: &Shared, queue: &str, id: &JobId) -> Result<Option<Reason>, Problem> {
    let mut job = match shared.inspector.show(&JobAddress { queue: queue.into(), id: id.clone() }).await {
        Err(Error::NoSuchJob(_)) => return Ok(None),
        job => job?,
    };
    shared.inspector.add_reasons(queue, std::slice::from_mut(&mut job)).await?;
    Ok(job.waiting.into_iter().next().filter(|reason| !matches!(reason, Reason::Runs(_) | Reason::Ended { .. })))
}

/// The word for the reason that blocks its first job, and the tone of the word.
pub(super) fn word_for(reason: Option<&Reason>) -> (&'static str, &'static str) {
    match reason {
        None | Some(Reason::Behind { .. }) => ("in rotation", "good"),
        Some(Reason::QueuePaused { .. }) => ("queue paused", "warn"),
        Some(Reason::NoWorker) => ("no worker", "bad"),
        Some(Reason::WorkersQuiet { .. }) => ("workers quiet", "warn"),
        Some(Reason::LimitFull { .. }) => ("limit full", ""),
        Some(Reason::RateLimited { .. }) => ("rate limited", ""),
        Some(_) => ("ready", ""),
    }
}

/// The list of the running jobs of a group. A filter cannot contain every name.
fn of_running(queue: &str, group: &str) -> Option<String> {
    let fits = group.len() <= 150 && !group.chars().any(char::is_control);
    fits.then(|| query(&[("state", "active"), ("queue", queue), ("text", &format!("group={}", Filter::quoted(group)))]))
}
