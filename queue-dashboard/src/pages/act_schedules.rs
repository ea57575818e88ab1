//! Changes of a schedule by operators. Each change is a line of the audit log, and leads to the
//! page of the schedule, which shows the result.

use std::time::SystemTime;

use axum::response::Response;
use queue_core::{
    Error,
    schedule::{MOST_BACKFILLED, ScheduleAddress, Schedules},
};

use super::{
    act::{Answer, redirect, user_and_role},
    confirm::Confirm,
};
use crate::{
    format::{Moment, count},
    guard::Viewer,
    params::{Params, query},
    problem::Problem,
    shared::Shared,
};

/// The schedule of a form.
fn schedule_of_form(form: &Params) -> Result<ScheduleAddress, Problem> {
    form.get("schedule").and_then(|text| text.parse().ok()).ok_or_else(Problem::no_schedule)
}

pub(crate) async fn set_paused(shared: &Shared, viewer: &Viewer, form: &Params, paused: bool) -> Answer {
    let (address, schedules) = (schedule_of_form(form)?, shared.client.schedules());
    let (action, did, was) = if paused { ("pause", "paused", "was-paused") } else { ("resume", "resumed", "was-ticking") };
    let changed = if paused { schedules.pause(&address).await } else { schedules.resume(&address).await };
    let changed = write_audit_line(viewer, action, &address, changed, |changed| usize::from(*changed), |_| String::new())?;
    Ok(redirect_back(viewer, form, &address, &query(&[("did", if changed { did } else { was })])))
}

pub(crate) async fn run_now(shared: &Shared, viewer: &Viewer, form: &Params) -> Answer {
    let address = schedule_of_form(form)?;
    let made = shared.client.schedules().run_now(&address).await;
    write_audit_line(viewer, "run", &address, made, |_| 1, |job| job.id.to_string())?;
    shared.expire_snapshot().await;
    Ok(redirect(viewer, &format!("schedules/{address}"), &query(&[("did", "ran")])))
}

pub(crate) async fn fill(shared: &Shared, viewer: &Viewer, form: &Params) -> Answer {
    let (address, schedules) = (schedule_of_form(form)?, shared.client.schedules());
    let (from, to) = (time(form, "from")?, time(form, "to")?);
    let page = format!("schedules/{address}");
    if form.get("sure") != Some("yes") {
        let ticks = preview(&schedules, &address, from, to).await?;
        let (Some(first), Some(last)) = (ticks.first(), ticks.last()) else {
            return Ok(redirect(viewer, &page, &query(&[("did", "filled"), ("ticks", "0")])));
        };
        let now = SystemTime::now();
        let field = |name| (name, form.get(name).unwrap_or_default().to_owned());
        let confirm = Confirm {
            tab: "schedules",
            question: format!("Create the jobs of {}?", count(ticks.len() as u64, "tick")),
            ticks: Some([first, last].map(|tick| Moment::new(*tick, now))),
            text: "A job that exists, or was created by a backfill within the last 24 hours, is not created again. The overlap policy does not apply: the jobs may run at the same time.".to_owned(),
            items: vec![address.to_string()],
            action: "schedules/backfill".to_owned(),
            fields: vec![("schedule", address.to_string()), field("from"), field("to")],
            button: "Backfill".to_owned(),
            is_harmless: true,
            back_to: &page,
            ..Confirm::default()
        };
        return confirm.page(shared, viewer);
    }
    let made = schedules.backfill(&address, from, to).await;
    let made = write_audit_line(viewer, "backfill", &address, made, |made| made.jobs, |_| String::new())?;
    shared.expire_snapshot().await;
    Ok(redirect(viewer, &page, &query(&[("did", "filled"), ("ticks", &made.ticks.to_string()), ("jobs", &made.jobs.to_string())])))
}

/// The ticks of a backfill, before any job is created.
async fn preview(schedules: &Schedules, address: &ScheduleAddress, from: SystemTime, to: SystemTime) -> Result<Vec<SystemTime>, Problem> {
    let nothing = |why: String| Problem::invalid(format!("{why} Nothing was created."));
    if from > to {
        return Err(nothing("The time range ends before it begins.".to_owned()));
    }
    let record = schedules.get(address).await?.ok_or_else(Problem::no_schedule)?;
    let ticks = record.ticks_between(from, to, MOST_BACKFILLED + 1)?;
    if ticks.len() > MOST_BACKFILLED {
        return Err(nothing(format!("There are more than {MOST_BACKFILLED} ticks in that time range. Choose a shorter one.")));
    }
    Ok(ticks)
}

/// A time in a form, in UTC: in the format of browsers, `2026-03-01T00:00`, or with seconds and
/// `Z`.
fn time(form: &Params, name: &'static str) -> Result<SystemTime, Problem> {
    let text = form.text::<40>(name).trim_end_matches(['Z', 'z']).replace(' ', "T");
    let text = if text.len() == "2026-03-01T00:00".len() { format!("{text}:00") } else { text };
    humantime::parse_rfc3339(&format!("{text}Z")).map_err(|_| {
        Problem::invalid(format!("The field “{name}” is not a time. Write it in UTC, as in 2026-03-01T00:00:00Z. Nothing was created."))
    })
}

/// Redirects to the page with the button.
fn redirect_back(viewer: &Viewer, form: &Params, address: &ScheduleAddress, notice: &str) -> Response {
    match form.get("back").filter(|back| back.starts_with("schedules?")) {
        Some(list) => redirect(viewer, list, notice),
        None => redirect(viewer, &format!("schedules/{address}"), notice),
    }
}

/// Logs who did what. A change without an answer of the broker is also logged, because it may have
/// been carried out.
fn write_audit_line<T>(
    viewer: &Viewer,
    action: &'static str,
    schedule: &ScheduleAddress,
    answer: queue_core::Result<T>,
    changed: impl FnOnce(&T) -> usize,
    jobs: impl FnOnce(&T) -> String,
) -> Result<T, Problem> {
    if matches!(&answer, Err(Error::NoSuchSchedule { .. } | Error::Invalid { .. })) {
        return answer.map_err(Problem::from);
    }
    let (who, role) = user_and_role(viewer);
    let (changed, jobs) = (answer.as_ref().ok().map(changed), answer.as_ref().map(jobs).unwrap_or_default());
    tracing::info!(
        target: "queue_dashboard::audit",
        ?who,
        role,
        action,
        queue = &*schedule.queue,
        schedule = schedule.name,
        jobs,
        changed,
        answered = answer.is_ok(),
        "changed by an operator"
    );
    answer.map_err(Problem::from)
}
