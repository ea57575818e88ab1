//! Changes of jobs and queues by operators. Each change is a line of the audit log, and leads back
//! to the page on which it was made.

use std::collections::BTreeMap;

use axum::{
    http::{StatusCode, header::LOCATION},
    response::{IntoResponse, Response},
};
use queue_core::{
    JobAddress, JobId,
    inspect::{Change, PauseOf},
};

use super::{
    act_all,
    confirm::{Confirm, capitalized},
    pauses::pause_of_form,
};
use crate::{
    guard::Viewer,
    params::{Params, query},
    paths::normalized_job_path,
    problem::Problem,
    shared::Shared,
};

/// The maximum number of jobs of one change.
const JOBS: usize = 100;

/// A warning before a change is made.
fn warning(change: Change) -> Option<&'static str> {
    match change {
        Change::Cancel => Some("A cancelled job does not run. A running job is asked to stop, and its result is discarded."),
        Change::Delete => Some("The job is deleted with its parameters, errors and result. This cannot be undone."),
        _ => None,
    }
}

pub(crate) type Answer = Result<Response, Problem>;

pub(crate) async fn change(shared: &Shared, viewer: &Viewer, form: &Params, change: Change) -> Answer {
    if form.get("all").is_some() {
        return act_all::change(shared, viewer, form, change).await;
    }
    let mut jobs = form.all("job").take(JOBS + 1).map(str::parse).collect::<Result<Vec<JobAddress>, _>>()?;
    if jobs.len() > JOBS {
        return Err(Problem::too_large());
    }
    jobs.sort();
    jobs.dedup();
    let back = form.get("back").unwrap_or_default();
    if let Some(warning) = warning(change).filter(|_| !jobs.is_empty() && form.get("sure") != Some("yes")) {
        let (these, back_to) =
            (if jobs.len() == 1 { "this job".to_owned() } else { format!("these {} jobs", jobs.len()) }, redirect_target(back, ""));
        let verb = capitalized(change.name());
        let fields = jobs.iter().map(|job| ("job", job.to_string())).chain([("back", back.to_owned())]);
        let confirm = Confirm {
            tab: "jobs",
            question: format!("{verb} {these}?"),
            text: warning.to_owned(),
            items: jobs.iter().map(ToString::to_string).collect(),
            action: format!("jobs/{change}"),
            fields: fields.collect(),
            asks_reason: change == Change::Cancel,
            button: verb,
            back_to: back_to.trim_end_matches(['?', '&']),
            ..Confirm::default()
        };
        return confirm.page(shared, viewer);
    }
    let mut of_queue = BTreeMap::<&str, Vec<JobId>>::new();
    for job in &jobs {
        of_queue.entry(&job.queue).or_default().push(job.id.clone());
    }
    let mut n = 0;
    // Other changes have no reason.
    let inspector = shared.inspector.clone().because(form.text::<1024>("reason"));
    for (queue, ids) in of_queue {
        let changed = match inspector.change_many(queue, change, &ids).await {
            Ok(changed) => changed,
            Err(error) => {
                // It is unknown whether this was carried out, so it is also logged.
                write_audit_line(viewer, change.name(), queue, &ids, None);
                shared.expire_snapshot().await;
                let mut problem = Problem::from(error);
                problem.text = format!("{}. {n} of {} jobs were changed before.", problem.text.trim_end_matches('.'), jobs.len());
                return Err(problem);
            }
        };
        let done: Vec<JobId> = ids.iter().zip(changed).filter(|(_, changed)| changed.done()).map(|(id, _)| id.clone()).collect();
        n += done.len();
        write_audit_line(viewer, change.name(), queue, if done.is_empty() { &ids } else { &done }, Some(done.len()));
    }
    shared.expire_snapshot().await;
    let notice = query(&[("did", change.name()), ("n", &n.to_string()), ("of", &jobs.len().to_string())]);
    // A deleted job no longer has a page.
    let back = if change == Change::Delete && back.starts_with("jobs/") { "jobs" } else { back };
    Ok(redirect(viewer, back, &notice))
}

pub(crate) async fn set_paused(shared: &Shared, viewer: &Viewer, form: &Params, paused: bool) -> Answer {
    let queue = form.text::<128>("queue");
    let known = shared.inspector.queues().await?;
    if !known.contains(&queue) {
        return Err(Problem::not_found("There is no such queue. Nothing was changed."));
    }
    let task = form.text::<128>("task");
    let of = if task.is_empty() { PauseOf::Queue } else { PauseOf::Task(task.as_str().into()) };
    let (verb, did) = match (&of, paused) {
        (PauseOf::Task(_), true) => ("pause", "pause-task"),
        (PauseOf::Task(_), false) => ("resume", "resume-task"),
        (_, true) => ("pause", "pause"),
        (_, false) => ("resume", "resume"),
    };
    if paused {
        shared.inspector.pause_as(&queue, of, pause_of_form(viewer, form)?).await?
    } else {
        shared.inspector.resume_of(&queue, of).await?
    }
    let (who, role) = user_and_role(viewer);
    tracing::info!(target: "queue_dashboard::audit", ?who, role, action = verb, queue, ?task, "changed by an operator");
    shared.expire_snapshot().await;
    Ok(redirect(viewer, form.get("back").unwrap_or("queues"), &query(&[("did", did)])))
}

/// Writes a line of the audit log. The names of queues and jobs have no line breaks, so a form
/// cannot forge lines.
fn write_audit_line(viewer: &Viewer, verb: &'static str, queue: &str, jobs: &[JobId], changed: Option<usize>) {
    let (who, role) = user_and_role(viewer);
    let jobs = jobs.iter().map(ToString::to_string).collect::<Vec<_>>().join(",");
    tracing::info!(target: "queue_dashboard::audit", ?who, role, action = verb, queue, jobs, changed, "changed by an operator");
}

/// Name and role, for the audit log.
pub(super) fn user_and_role(viewer: &Viewer) -> (&str, &str) {
    viewer.person.as_ref().map_or(("-", "-"), |person| (person.name(), person.role().name()))
}

/// Redirects back to a page of the dashboard, which shows the result.
pub(super) fn redirect(viewer: &Viewer, back: &str, notice: &str) -> Response {
    let location = format!("{}/{}", viewer.base, redirect_target(back, notice));
    (StatusCode::SEE_OTHER, [(LOCATION, location)]).into_response()
}

/// Redirects to a page whose address was created here, and not taken from the form.
pub(super) fn redirect_here(viewer: &Viewer, page: &str, notice: &str) -> Response {
    let separator = if page.ends_with('?') { "" } else { "&" };
    (StatusCode::SEE_OTHER, [(LOCATION, format!("{}/{page}{separator}{notice}", viewer.base))]).into_response()
}

/// Rebuilds the address from its validated parts, so it is always a page of the dashboard.
pub(crate) fn redirect_target(back: &str, notice: &str) -> String {
    let (path, rest) = back.split_once('?').unwrap_or((back, ""));
    let is_name = |part: &str| {
        !part.is_empty() && part.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"._-".contains(&byte)) && !part.starts_with('.')
    };
    let parts: Vec<&str> = path.split('/').collect();
    let path = match parts.as_slice() {
        ["jobs"] | ["queues"] | ["schedules"] | ["failures"] => path.to_owned(),
        ["schedules", queue, id] if is_name(queue) && is_name(id) => path.to_owned(),
        ["jobs", queue, id] => normalized_job_path(queue, id).unwrap_or_else(|| "jobs".to_owned()),
        _ => "jobs".to_owned(),
    };
    let params = Params::parse(rest.as_bytes());
    let kept: Vec<(&str, String)> =
        ["state", "queue", "task", "text", "at", "offset", "from"].map(|name| (name, params.text::<200>(name))).into();
    let kept: Vec<(&str, &str)> = kept.iter().map(|(name, value)| (*name, value.as_str())).collect();
    let kept = query(&kept);
    let separator = if kept.is_empty() { "" } else { "&" };
    format!("{path}?{kept}{separator}{notice}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_change_leads_back_to_a_page_of_ours_whatever_was_sent() {
        assert_eq!(redirect_target("jobs?state=dead&queue=mail&x=1", "n=1"), "jobs?state=dead&queue=mail&n=1");
        assert_eq!(redirect_target("jobs/mail/a-1", "n=1"), "jobs/mail/a-1?n=1");
        assert_eq!(redirect_target("jobs/mail/a%2541", "n=1"), "jobs/mail/a%2541?n=1");
        assert_eq!(redirect_target("jobs/mail/~..", "n=1"), "jobs/mail/~..?n=1");
        assert_eq!(redirect_target("jobs/%2e%2e/%2e%2e", "n=1"), "jobs?n=1", "no queue has such a name");
        assert_eq!(redirect_target("failures?queue=mail&from=50", "n=1"), "failures?queue=mail&from=50&n=1");
        assert_eq!(redirect_target("schedules/mail/nightly", "n=1"), "schedules/mail/nightly?n=1");
        assert_eq!(redirect_target("schedules?queue=mail&at=mail&offset=50", "n=1"), "schedules?queue=mail&at=mail&offset=50&n=1");
        for back in [
            "//evil.example",
            "https://evil.example",
            "/evil",
            "jobs/../../x",
            "schedules/../x",
            "jobs/a/b/c",
            "\\\\evil",
            "jobs/a/..",
            "jobs//evil",
            "a\r\nb: c",
        ] {
            assert_eq!(redirect_target(back, "n=1"), "jobs?n=1", "{back}");
        }
        assert_eq!(redirect_target("jobs?text=%0d%0aset-cookie:x", "n=1"), "jobs?text=set-cookie%3Ax&n=1");
    }
}
