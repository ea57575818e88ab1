//! The page Schedules: the descriptions of their rules, and the outcomes of the last ticks.

use std::{sync::Arc, time::SystemTime};

use askama::Template;
use axum::{
    Extension,
    extract::{RawQuery, State},
    http::StatusCode,
    response::Response,
};
use futures_util::FutureExt;
use queue_core::schedule::{ScheduleRan, ScheduleRecord};

use super::{CHOICES, Content, QUEUES, QUEUES_AT_ONCE, Stale, full_page, jobs::Notice, render, unread::Unread};
use crate::{
    format::{Moment, count, short},
    guard::Viewer,
    jobs::Place,
    params::{Params, query},
    problem::Problem,
    shared::Shared,
    snapshot::{Snapshot, together},
};

/// Schedules on one page.
const PAGE: usize = 50;

#[derive(Template)]
#[template(path = "schedules.html")]
struct Page<'a> {
    viewer: &'a Viewer,
    stale: Option<Stale>,
    unread: Unread,
    rows: Vec<Row>,
    queue: String,
    queues: Vec<String>,
    back: String,
    first: Option<String>,
    next: Option<String>,
}

struct Row {
    address: String,
    task: String,
    words: String,
    expression: String,
    zone: String,
    badge: Badge,
    warning: Option<&'static str>,
    next: Option<Moment>,
    last: Option<Run>,
    skipped: u64,
}

/// A word for the current state of a schedule.
#[derive(Clone, Copy)]
pub(super) struct Badge {
    pub(super) word: &'static str,
    /// The tone of the word.
    pub(super) tone: &'static str,
    pub(super) paused: bool,
}

impl Badge {
    pub(super) fn of(record: &ScheduleRecord) -> Badge {
        let (word, tone) = match record {
            ScheduleRecord { paused: Some(_), .. } => ("paused", "warn"),
            ScheduleRecord { problem: Some(_), .. } => ("broken", "bad"),
            ScheduleRecord { next: None, waiting: None, .. } => ("over", ""),
            ScheduleRecord { dead_in_a_row: 1.., .. } => ("failing", "bad"),
            _ => ("ticks", "good"),
        };
        Badge { word, tone, paused: record.paused.is_some() }
    }
}

/// A run and its outcome.
pub(super) struct Run {
    pub(super) tick: Moment,
    pub(super) job: Option<String>,
    pub(super) outcome: String,
    pub(super) tone: &'static str,
    pub(super) ended: Option<Moment>,
}

impl Run {
    pub(super) fn new(run: &ScheduleRan, now: SystemTime) -> Option<Run> {
        let outcome = run.outcome.as_deref().map(|outcome| short(outcome, 40));
        let tone = match outcome.as_deref() {
            None => "run",
            Some("done") => "good",
            Some("dead") => "bad",
            Some("parked") => "warn",
            Some(_) => "",
        };
        Some(Run {
            tick: Moment::new(run.tick?, now),
            job: run.job.as_ref().map(ToString::to_string),
            outcome: outcome.unwrap_or_else(|| "has not ended".to_owned()),
            tone,
            ended: run.ended.map(|ended| Moment::new(ended, now)),
        })
    }
}

/// The reason why no worker runs the jobs of a schedule: a word, and a sentence.
pub(super) fn why_not_run(record: &ScheduleRecord, snapshot: Option<&Snapshot>) -> Option<(&'static str, String)> {
    let (queue, task) = (&*record.schedule.queue, &record.task);
    let workers = &snapshot?.details.workers;
    let serves = |queues: &[String]| queues.iter().any(|served| served == queue);
    let mut live = workers.iter().filter(|worker| !worker.lease_left.is_zero() && serves(&worker.queues)).peekable();
    if live.peek().is_none() {
        return Some(("no worker", format!("No live worker serves the queue {queue}: its schedules do not tick until a worker starts.")));
    }
    // A worker lists only a part of its tasks if there are very many.
    let may_know = live.any(|worker| worker.tasks.contains(task) || worker.task_count > worker.tasks.len() as u64);
    (!may_know).then(|| {
        (
            "unknown task",
            format!("No live worker of the queue has the task {task}: its jobs are parked until a release with this task is deployed."),
        )
    })
}

impl Row {
    fn new(record: &ScheduleRecord, snapshot: Option<&Snapshot>, now: SystemTime) -> Self {
        let last = record.runs.iter().find(|run| run.tick == record.last && run.tick.is_some());
        Row {
            address: record.schedule.to_string(),
            task: record.task.clone(),
            words: short(&record.words, 120),
            expression: short(&record.expression, 80),
            zone: short(&record.tz, 60),
            badge: Badge::of(record),
            warning: why_not_run(record, snapshot).map(|(word, _)| word),
            next: record.next.filter(|_| record.paused.is_none()).map(|next| Moment::new(next, now)),
            last: last.and_then(|run| Run::new(run, now)),
            skipped: record.skipped,
        }
    }
}

/// The result of the change of a schedule that has led to this page.
pub(super) fn notice(params: &Params) -> Option<Notice> {
    let good = |text: &str| Some(Notice { text: text.to_owned(), is_good: true });
    let same = |text: &str| Some(Notice { text: text.to_owned(), is_good: false });
    match params.get("did")? {
        "paused" => good("The schedule is paused. Its jobs continue."),
        "was-paused" => same("The schedule was paused already. Nothing was changed."),
        "resumed" => good("The schedule is resumed. Ticks missed during the pause are skipped."),
        "was-ticking" => same("The schedule was not paused. Nothing was changed."),
        "ran" => good("A job was created. It is the first of the last runs."),
        "filled" => {
            let (ticks, jobs) = (params.number::<0, 1_000>("ticks").get(), params.number::<0, 1_000>("jobs").get());
            if ticks == 0 {
                return same("There is no tick in that time range. Nothing was created.");
            }
            let rest = if jobs < ticks { "; the others exist, or were created by a backfill within the last 24 hours" } else { "" };
            let made = if jobs == 1 { "job was" } else { "jobs were" };
            Some(Notice { text: format!("{}: {jobs} {made} made{rest}.", count(ticks, "tick")), is_good: jobs > 0 })
        }
        _ => None,
    }
}

pub(crate) async fn page(State(shared): State<Arc<Shared>>, Extension(viewer): Extension<Viewer>, RawQuery(query): RawQuery) -> Response {
    match content(&shared, &viewer, &Params::parse(query.unwrap_or_default().as_bytes())).await {
        Ok(content) => full_page(&shared, &viewer, &content),
        Err(problem) => problem.page(&viewer),
    }
}

pub(crate) async fn content(shared: &Shared, viewer: &Viewer, params: &Params) -> Result<Content, Problem> {
    let queue = params.text::<128>("queue");
    let from = Place { queue: params.text::<128>("at"), offset: params.number::<0, { u64::MAX }>("offset").get() };
    let view = shared.view().await;
    let snapshot = view.snapshot.as_deref();
    let names: Vec<String> = snapshot.map(|snapshot| snapshot.queues.iter().map(|queue| queue.name.clone()).collect()).unwrap_or_default();
    let chosen: Vec<&String> = names.iter().filter(|name| queue.is_empty() || **name == queue).collect();
    let _permit = shared.list_permit().await?;
    let mut unread = Unread::of(&view, &queue);
    let (records, next) = find(shared, &chosen, &from, &mut unread).await;
    let now = SystemTime::now();
    let asked = |place: Option<&Place>| {
        let offset = place.map(|place| place.offset.to_string()).unwrap_or_default();
        query(&[("queue", &queue), ("at", place.map_or("", |place| &place.queue)), ("offset", &offset)])
    };
    let is_first = from.queue.is_empty() && from.offset == 0;
    let page = Page {
        viewer,
        stale: Stale::of(&view),
        unread,
        rows: records.iter().map(|record| Row::new(record, snapshot, now)).collect(),
        queues: names.iter().take(CHOICES).cloned().collect(),
        back: format!("schedules?{}", asked(Some(&from).filter(|_| !is_first))),
        first: (!is_first).then(|| asked(None)),
        next: next.as_ref().map(|next| asked(Some(next))),
        queue: queue.clone(),
    };
    let status = if snapshot.is_some() { StatusCode::OK } else { StatusCode::SERVICE_UNAVAILABLE };
    let live = format!("/live/schedules?{}", asked(Some(&from).filter(|_| !is_first)));
    Ok(Content { title: "Schedules".to_owned(), tab: "schedules", html: render(&page)?, status, live: Some(live), notice: notice(params) })
}

/// The schedules of these queues from a position on, and the start of the next page.
async fn find(shared: &Shared, queues: &[&String], from: &Place, unread: &mut Unread) -> (Vec<ScheduleRecord>, Option<Place>) {
    let rest: Vec<&String> = queues.iter().copied().filter(|name| **name >= from.queue).collect();
    let mut found = Vec::new();
    let schedules = shared.client.schedules();
    for some in rest.chunks(QUEUES_AT_ONCE).take(QUEUES / QUEUES_AT_ONCE) {
        let room = PAGE - found.len();
        let mut calls = Vec::with_capacity(some.len());
        for name in some {
            let offset = if **name == from.queue { from.offset } else { 0 };
            calls.push(schedules.page(name, offset, room).map(move |page| (*name, offset, page)).boxed());
        }
        for (name, offset, page) in together(calls).await {
            let Some((records, next)) = unread.take_or_record(name, page) else { continue };
            let room = PAGE - found.len();
            let (there, room_for) = (records.len(), records.len().min(room));
            found.extend(records.into_iter().take(room));
            let next = if room_for < there { Some(offset + room_for as u64) } else { next };
            if let Some(offset) = next {
                return (found, Some(Place { queue: name.clone(), offset }));
            }
        }
        if found.len() >= PAGE {
            let following = some.last().and_then(|last| rest.iter().find(|name| name > &last));
            return (found, following.map(|name| Place { queue: (*name).clone(), offset: 0 }));
        }
    }
    (found, rest.get(QUEUES).map(|name| Place { queue: (*name).clone(), offset: 0 }))
}
