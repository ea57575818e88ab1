//! The page that edits a waiting job, and the handler of its form; and the copy of a job. The page
//! is not refreshed while it is open, because it contains the version that the operator has seen.
//! Each change is a line of the audit log. The line has no parameters, because they may be secrets.

use std::{
    sync::Arc,
    time::{Duration, SystemTime},
};

use askama::Template;
use axum::{
    Extension,
    extract::{Path, State},
    http::StatusCode,
    response::Response,
};
use queue_core::{
    Error, JobAddress, JobId, JobState, Priority, Registry,
    inspect::{Edit, Edited, JobRecord},
};

use super::{
    Content,
    act::{Answer, redirect_here, user_and_role},
    act_groups::field,
    full_page, render,
};
use crate::{
    guard::Viewer,
    params::{Params, query, text_of},
    paths::{name_in, path_of},
    problem::Problem,
    secrets::Secrets,
    shared::Shared,
};

/// The maximum number of characters of editable parameters.
const JSON_MAX: usize = 64 * 1024;

#[derive(Template)]
#[template(path = "edit.html")]
struct Page<'a> {
    viewer: &'a Viewer,
    address: String,
    path: String,
    queue: String,
    task: String,
    seen: String,
    payload: Result<String, &'static str>,
    rows: usize,
    /// The names of the priorities, and whether the job has it.
    priorities: Vec<(&'static str, bool)>,
    at: String,
    group: String,
    max_attempts: String,
    failures: u32,
}

#[derive(Template)]
#[template(path = "duplicate.html")]
struct CopyPage<'a> {
    viewer: &'a Viewer,
    address: String,
    path: String,
    queue: String,
    task: String,
    /// The id of the copy. It is created with the page, so that a second click creates no second
    /// copy.
    copy: JobId,
}

/// Whether a job of this state can be edited.
pub(crate) fn is_editable(state: JobState) -> bool {
    state != JobState::Active && !state.is_final()
}

pub(crate) async fn page(
    State(shared): State<Arc<Shared>>,
    Extension(viewer): Extension<Viewer>,
    Path((queue, id)): Path<(String, String)>,
) -> Response {
    match content(&shared, &viewer, name_in(&queue), name_in(&id)).await {
        Ok(content) => full_page(&shared, &viewer, &content),
        Err(problem) => problem.page(&viewer),
    }
}

async fn content(shared: &Shared, viewer: &Viewer, queue: &str, id: &str) -> Result<Content, Problem> {
    let address: JobAddress = format!("{queue}/{id}").parse()?;
    let job = shared.inspector.show(&address).await?;
    if !is_editable(job.state) {
        return Err(Error::WrongState { job: address, verb: "edit", state: job.state.name() }.into());
    }
    let payload = payload_of(&job, &shared.settings.secrets);
    let page = Page {
        viewer,
        address: address.to_string(),
        path: path_of(&address),
        queue: queue.to_owned(),
        task: job.task.clone().unwrap_or_default(),
        seen: job.seen()?.to_string(),
        rows: payload.as_ref().map_or(0, |json| json.lines().count().clamp(3, 24)),
        payload,
        priorities: Priority::ALL.into_iter().map(|priority| (priority.name(), priority == job.priority)).collect(),
        at: time_of(&job),
        group: group_of(&job),
        max_attempts: job.max_attempts.map(|attempts| attempts.to_string()).unwrap_or_default(),
        failures: job.failures,
    };
    let title = format!("Edit {address}");
    Ok(Content { title, tab: "jobs", html: render(&page)?, status: StatusCode::OK, live: None, notice: None })
}

pub(crate) async fn copy_page(
    State(shared): State<Arc<Shared>>,
    Extension(viewer): Extension<Viewer>,
    Path((queue, id)): Path<(String, String)>,
) -> Response {
    match copy_content(&shared, &viewer, name_in(&queue), name_in(&id)).await {
        Ok(content) => full_page(&shared, &viewer, &content),
        Err(problem) => problem.page(&viewer),
    }
}

async fn copy_content(shared: &Shared, viewer: &Viewer, queue: &str, id: &str) -> Result<Content, Problem> {
    let address: JobAddress = format!("{queue}/{id}").parse()?;
    let job = shared.inspector.show(&address).await?;
    let (path, queue, task) = (path_of(&address), queue.to_owned(), job.task.unwrap_or_default());
    let title = format!("Duplicate {address}");
    let html = render(&CopyPage { viewer, address: address.to_string(), path, queue, task, copy: JobId::make() })?;
    Ok(Content { title, tab: "jobs", html, status: StatusCode::OK, live: None, notice: None })
}

/// The editable parameters, or the reason why they cannot be edited.
fn payload_of(job: &JobRecord, secrets: &Secrets) -> Result<String, &'static str> {
    let json = job.payload_json().map_err(|_| "They cannot be decoded.")?;
    let whole = queue_core::__private::json(&json).ok().and_then(|value| serde_json::to_string_pretty(&value).ok());
    let whole = whole.ok_or("They cannot be decoded.")?;
    if secrets.json(&json).ok().as_deref() != Some(&*whole) {
        return Err("Some values are hidden here: edit them on the command line.");
    }
    if whole.len() > JSON_MAX { Err("They are too long for this page: edit them on the command line.") } else { Ok(whole) }
}

fn group_of(job: &JobRecord) -> String {
    job.group.as_ref().map(ToString::to_string).unwrap_or_default()
}

fn time_of(job: &JobRecord) -> String {
    job.due_at.map(|at| humantime::format_rfc3339_millis(at).to_string()).unwrap_or_default()
}

/// The job of the form.
fn job_of_form(form: &Params) -> Result<JobAddress, Problem> {
    form.text::<512>("job").parse().map_err(|_| Problem::not_found("There is no such job. Nothing was changed."))
}

pub(crate) async fn change_job(shared: &Shared, viewer: &Viewer, form: &Params) -> Answer {
    let address = job_of_form(form)?;
    let job = shared.inspector.show(&address).await?;
    let mut edit = Edit::new().seen(form.text::<2048>("seen").parse()?);
    let priority: Priority = form.text::<16>("priority").parse()?;
    if priority != job.priority {
        edit = edit.priority(priority);
    }
    // A one-line field has no line ends, and spaces around the name are ignored. A value that
    // differs only in these is unchanged.
    edit = match form.text::<256>("group") {
        group if group == text_of::<256>(&group_of(&job)) => edit,
        group if group.is_empty() => edit.no_group(),
        group => edit.group(group),
    };
    edit = match field::<u32>(form, "max_attempts")? {
        attempts if attempts == job.max_attempts => edit,
        Some(attempts) => edit.max_attempts(attempts),
        None => edit.default_max_attempts(),
    };
    edit = match form.text::<40>("at") {
        at if at == time_of(&job) => edit,
        at => with_time(edit, &at)?,
    };
    if let Some(json) = form.all("payload").next() {
        if json.trim().is_empty() {
            let problem =
                "The field “Parameters” is empty: write them as a JSON object, which is `{}` if there are none. Nothing was changed.";
            return Err(Problem::invalid(problem));
        }
        if let Some(handler) = job.task.as_deref().and_then(|task| Registry::linked().get(task)) {
            edit = edit.task(handler.task);
        }
        edit = edit.payload_json(json);
    }
    let answer = shared.inspector.edit(&address, &edit).await;
    shared.expire_snapshot().await;
    let is_change = answer.as_ref().map_or(true, |edited| !edited.changes.is_empty());
    if is_change {
        let fields = |edited: &Edited| edited.changes.iter().map(|change| change.field).collect::<Vec<_>>().join(",");
        write_audit_line(viewer, "edit", &address, &answer.as_ref().map(fields).unwrap_or_default(), answer.as_ref().err());
    }
    let edited = answer?;
    let did = match (edited.changes.is_empty(), edited.stale_tags.is_empty()) {
        (true, _) => "edit-none",
        (false, true) => "edit",
        (false, false) => "edit-tags",
    };
    Ok(redirect_here(viewer, &page_of(&address), &query(&[("did", did)])))
}

/// The address of the page of a job, to which the result is appended.
fn page_of(address: &JobAddress) -> String {
    format!("{}?", path_of(address).trim_start_matches('/'))
}

/// `now`, a delay or a time. With an empty text, the time is unchanged.
fn with_time(edit: Edit, text: &str) -> Result<Edit, Problem> {
    if text.is_empty() {
        return Ok(edit);
    }
    if text == "now" {
        return Ok(edit.now());
    }
    let time: Option<SystemTime> = humantime::parse_rfc3339_weak(text).ok();
    let delay: Option<Duration> = humantime::parse_duration(text).ok();
    match (time, delay) {
        (Some(time), _) => Ok(edit.at(time)),
        (None, Some(delay)) => Ok(edit.delay(delay)),
        (None, None) => {
            let advice = "write `now`, a delay as `10m`, or a time as `2030-01-31T08:00:00Z` (UTC)";
            Err(Problem::invalid(format!("The time `{text}` cannot be read: {advice}. Nothing was changed.")))
        }
    }
}

pub(crate) async fn copy_job(shared: &Shared, viewer: &Viewer, form: &Params) -> Answer {
    let address = job_of_form(form)?;
    let id: JobId = form.text::<128>("copy").parse()?;
    let queue = Some(form.text::<128>("queue")).filter(|queue| !queue.is_empty());
    let answer = shared.inspector.duplicate(&address, queue.as_deref(), id).await;
    shared.expire_snapshot().await;
    let copy = answer.as_ref().map(|copy| copy.job.to_string()).unwrap_or_default();
    write_audit_line(viewer, "duplicate", &address, &copy, answer.as_ref().err());
    let copy = answer?;
    let did = if copy.served { "duplicate" } else { "duplicate-unserved" };
    Ok(redirect_here(viewer, &page_of(&copy.job), &query(&[("did", did)])))
}

/// Logs who did what. A change without an answer of the broker is also logged, because it may have
/// been carried out.
fn write_audit_line(viewer: &Viewer, action: &'static str, job: &JobAddress, what: &str, error: Option<&Error>) {
    let is_refused = matches!(
        error,
        Some(
            Error::Invalid { .. }
                | Error::NoSuchJob(_)
                | Error::WrongState { .. }
                | Error::EditConflict { .. }
                | Error::KeyHeld { .. }
                | Error::GroupFull { .. }
        )
    );
    if !is_refused {
        let (who, role) = user_and_role(viewer);
        let (queue, jobs) = (&*job.queue, job.id.to_string());
        tracing::info!(target: "queue_dashboard::audit", ?who, role, action, queue, jobs, what, answered = error.is_none(), "changed by an operator");
    }
}
