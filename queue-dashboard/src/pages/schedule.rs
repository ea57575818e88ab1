//! The page of one schedule: its next ticks, the outcomes of its last runs, and its actions.

use std::{sync::Arc, time::SystemTime};

use askama::Template;
use axum::{
    Extension,
    extract::{Path, RawQuery, State},
    http::StatusCode,
    response::Response,
};
use queue_core::schedule::{ScheduleAddress, ScheduleHappened, ScheduleRecord};

use super::{
    Content, Stale, full_page, render,
    schedules::{Badge, Run, notice, why_not_run},
};
use crate::{
    findings::capital,
    format::{Moment, number, short, span},
    guard::Viewer,
    params::{Params, query},
    problem::Problem,
    shared::Shared,
};

/// The number of upcoming ticks that are shown.
const NEXT: usize = 5;

#[derive(Template)]
#[template(path = "schedule.html")]
struct Page<'a> {
    viewer: &'a Viewer,
    stale: Option<Stale>,
    address: String,
    queue: String,
    name: String,
    words: String,
    zone: String,
    summary: String,
    badge: Badge,
    warnings: Vec<String>,
    next: Vec<Moment>,
    runs: Vec<Run>,
    events: Vec<Event>,
    facts: Vec<(&'static str, String)>,
    args: Option<String>,
}

/// An event of the schedule.
struct Event {
    when: Option<Moment>,
    what: String,
    range: String,
}

pub(crate) async fn page(
    State(shared): State<Arc<Shared>>,
    Extension(viewer): Extension<Viewer>,
    Path((queue, name)): Path<(String, String)>,
    RawQuery(query): RawQuery,
) -> Response {
    match content(&shared, &viewer, &queue, &name, &Params::parse(query.unwrap_or_default().as_bytes())).await {
        Ok(content) => full_page(&shared, &viewer, &content),
        Err(problem) => problem.page(&viewer),
    }
}

pub(crate) async fn content(shared: &Shared, viewer: &Viewer, queue: &str, name: &str, params: &Params) -> Result<Content, Problem> {
    let address = ScheduleAddress::new(queue, name)?;
    let record = shared.client.schedules().get(&address).await?.ok_or_else(Problem::no_schedule)?;
    let view = shared.view().await;
    let now = SystemTime::now();
    let args = record.args.as_ref().map(|args| shared.settings.secrets.json(&args.to_string()).unwrap_or_else(|problem| problem));
    let page = Page {
        viewer,
        stale: Stale::of(&view),
        address: address.to_string(),
        queue: queue.to_owned(),
        name: name.to_owned(),
        words: capital(&short(&record.words, 300)),
        zone: short(&record.tz, 80),
        summary: summary(&record, now),
        badge: Badge::of(&record),
        warnings: why_not_run(&record, view.snapshot.as_deref()).map(|(_, text)| text).into_iter().chain(warnings(&record, now)).collect(),
        next: record.next_ticks(NEXT).unwrap_or_default().into_iter().map(|tick| Moment::new(tick, now)).collect(),
        runs: record.runs.iter().filter_map(|run| Run::new(run, now)).collect(),
        events: record.events.iter().map(|event| Event::new(event, now)).collect(),
        facts: facts(&record, now),
        args,
    };
    let live = format!("/live/schedule?{}", query(&[("queue", queue), ("id", name)]));
    Ok(Content {
        title: address.to_string(),
        tab: "schedules",
        html: render(&page)?,
        status: StatusCode::OK,
        live: Some(live),
        notice: notice(params),
    })
}

/// A sentence with its current state.
fn summary(record: &ScheduleRecord, now: SystemTime) -> String {
    let relative = |time: SystemTime| Moment::new(time, now).relative;
    match (&record.paused, record.waiting, record.next) {
        (Some(why), ..) => format!("Paused: {}. Its jobs continue; you can run it manually and backfill it.", short(why, 200)),
        (None, Some(_), _) => "A tick waits until the previous job has ended.".to_owned(),
        (None, None, Some(next)) => format!("Ticks {}.", relative(next)),
        (None, None, None) => "It has ended and does not tick any more.".to_owned(),
    }
}

/// Problems of the schedule that do not depend on workers.
fn warnings(record: &ScheduleRecord, now: SystemTime) -> Vec<String> {
    let mut found = Vec::new();
    found.extend(record.problem.as_deref().map(|problem| format!("It cannot tick: {}.", short(problem, 400).trim_end_matches('.'))));
    found.extend((record.dead_in_a_row > 0).then(|| match record.dead_in_a_row {
        1 => "Its last job became a dead letter.".to_owned(),
        jobs => format!("Its last {} jobs became dead letters.", number(jobs)),
    }));
    found.extend(record.undeclared_since.map(|since| {
        format!(
            "Code has declared it, and no live worker has declared it since {}. It is paused one hour later.",
            Moment::new(since, now).exact
        )
    }));
    found
}

impl Event {
    fn new(event: &ScheduleHappened, now: SystemTime) -> Self {
        let exact = |time: Option<SystemTime>| time.map(|time| Moment::new(time, now).exact);
        let range = match (exact(event.from), exact(event.to)) {
            (Some(from), Some(to)) if event.ticks > 1 => format!("{} ticks from {from} to {to}", number(event.ticks)),
            (Some(from), _) => format!("the tick of {from}"),
            _ => String::new(),
        };
        Event { when: event.at.map(|at| Moment::new(at, now)), what: short(&event.what, 200), range }
    }
}

fn facts(record: &ScheduleRecord, now: SystemTime) -> Vec<(&'static str, String)> {
    let exact = |time: SystemTime| Moment::new(time, now).exact;
    let some = |n: u64| (n > 0).then(|| number(n));
    let millis = std::time::Duration::from_millis;
    let facts = [
        ("Expression", Some(short(&record.expression, 200))),
        ("Time zone", Some(short(&record.tz, 80))),
        ("Task", Some(record.task.clone())),
        ("If the last job has not ended", Some(record.overlap.clone())),
        ("Missed ticks", Some(record.catch_up.clone())),
        ("Missed ticks are caught up within", record.catch_up_window_ms.map(|ms| span(millis(ms)))),
        ("Jitter", some(record.jitter_ms).map(|_| span(record.jitter()))),
        ("First tick not before", record.start.map(exact)),
        ("Last tick not after", record.end.map(exact)),
        ("Most ticks", record.max_ticks.map(number)),
        ("Paused after dead jobs in a row", some(record.pause_after_dead)),
        ("Ticks made", Some(number(record.made))),
        ("Ticks skipped", Some(number(record.skipped))),
        ("Set at run time", record.set_at_run_time.then(|| "yes".to_owned())),
        ("Declared by", Some(short(&record.declared_by.join(", "), 120)).filter(|releases| !releases.is_empty())),
    ];
    facts.into_iter().filter_map(|(name, value)| Some((name, value?))).collect()
}
