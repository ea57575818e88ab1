//! The page Overview: problems, the number of jobs in each state, and the events of the last
//! minutes.

use std::{
    sync::{Arc, PoisonError},
    time::{Duration, SystemTime},
};

use askama::Template;
use axum::{Extension, extract::State, http::StatusCode, response::Response};
use queue_core::{
    Durability, JobState,
    inspect::{OutboxDepth, OutboxRecord},
};

use super::{
    Content, Stale,
    chart::{Chart, Part},
    full_page,
    queues::Row,
    render,
};
use crate::{
    findings::{Finding, findings},
    format::{Moment, number, rate, span},
    guard::Viewer,
    history::{History, Rates},
    problem::Problem,
    secrets::Secrets,
    shared::Shared,
    snapshot::Snapshot,
};

/// The number of queues that are shown: those with the most jobs or problems.
const QUEUES: usize = 8;

/// The maximum number of queues of outboxes that are shown. `status` lists all.
const OUTBOX_ROWS: usize = 20;

#[derive(Template)]
#[template(path = "overview.html")]
struct Page<'a> {
    viewer: &'a Viewer,
    stale: Option<Stale>,
    seen: Option<Seen>,
}

struct Seen {
    findings: Vec<Finding>,
    tiles: Vec<Tile>,
    waits: Vec<Wait>,
    chart: Chart,
    queues: Vec<Row>,
    all_queues: usize,
    outboxes: Vec<Outbox>,
    durability: Durability,
    room: Option<String>,
}

/// A queue of an outbox.
struct Outbox {
    database: String,
    queue: String,
    waiting: String,
    oldest: String,
    in_flight: String,
    refused: String,
    is_full: bool,
    /// The relay that sends its rows, or the time of the last report.
    relay: String,
    is_stale: bool,
}

/// The reason for which jobs wait.
struct Wait {
    jobs: String,
    reason: &'static str,
    /// The list of these jobs.
    link: String,
}

struct Tile {
    name: &'static str,
    value: String,
    /// The tone of the value: `bad`, `warn`, or empty.
    tone: &'static str,
    note: String,
    link: &'static str,
}

pub(crate) async fn page(State(shared): State<Arc<Shared>>, Extension(viewer): Extension<Viewer>) -> Response {
    match content(&shared, &viewer).await {
        Ok(content) => full_page(&shared, &viewer, &content),
        Err(problem) => problem.page(&viewer),
    }
}

pub(crate) async fn content(shared: &Shared, viewer: &Viewer) -> Result<Content, Problem> {
    let view = shared.view().await;
    let seen = view.snapshot.as_ref().map(|snapshot| {
        let history = shared.history.lock().unwrap_or_else(PoisonError::into_inner);
        summarize(snapshot, &history, &shared.settings.secrets)
    });
    let html = render(&Page { viewer, stale: Stale::of(&view), seen })?;
    let status = if view.snapshot.is_some() { StatusCode::OK } else { StatusCode::SERVICE_UNAVAILABLE };
    Ok(Content { title: "Overview".to_owned(), tab: "overview", html, status, live: Some("/live/overview".to_owned()), notice: None })
}

fn summarize(snapshot: &Snapshot, history: &History, secrets: &Secrets) -> Seen {
    let now = SystemTime::now();
    let mut queues: Vec<_> = snapshot.queues.iter().collect();
    queues.sort_by_key(|queue| {
        let of = |state| queue.stats.count(state);
        let unserved = queue.stats.workers == 0 && of(JobState::Ready) > 0;
        std::cmp::Reverse((
            unserved,
            of(JobState::Ready) + of(JobState::Active) + of(JobState::Retry),
            of(JobState::Dead) + of(JobState::Parked),
        ))
    });
    Seen {
        findings: findings(snapshot)
            .into_iter()
            .map(|finding| Finding { quote: finding.quote.map(|quote| secrets.text(&quote)), ..finding })
            .collect(),
        tiles: tiles(snapshot, history.rates()),
        waits: waits(snapshot),
        chart: chart(history),
        queues: queues.into_iter().take(QUEUES).map(|queue| Row::new(snapshot, queue, history, now)).collect(),
        all_queues: snapshot.queues.len(),
        outboxes: snapshot.outboxes().iter().flat_map(|record| outbox(record, now)).take(OUTBOX_ROWS).collect(),
        durability: snapshot.details.durability,
        room: snapshot.condition.room(),
    }
}

/// Its queues, or one row without a queue.
fn outbox(record: &OutboxRecord, now: SystemTime) -> Vec<Outbox> {
    let row = |depth: &OutboxDepth| Outbox {
        database: record.database.clone(),
        queue: depth.queue.clone(),
        waiting: number(depth.waiting),
        oldest: depth.oldest.map(span).unwrap_or_default(),
        in_flight: number(depth.in_flight),
        refused: number(depth.refused),
        is_full: depth.full,
        relay: match record.is_stale() {
            true => format!("not reported since {}", Moment::new(record.reported_at, now).exact),
            false => depth.holder.clone().unwrap_or_default(),
        },
        is_stale: record.is_stale(),
    };
    if record.queues.is_empty() { vec![row(&OutboxDepth::default())] } else { record.queues.iter().map(row).collect() }
}

/// The present reasons, with the names of `jobs list 'waiting=…'`.
fn waits(snapshot: &Snapshot) -> Vec<Wait> {
    let row = |(reason, jobs): (&&'static str, &u64)| {
        let (words, state) = words(reason);
        // Jobs may be parked for two reasons.
        let filter = if state == JobState::Parked { String::new() } else { format!("&text=waiting%3D{reason}") };
        Wait { jobs: number(*jobs), reason: words, link: format!("/jobs?state={state}{filter}") }
    };
    snapshot.waiting().iter().map(row).collect()
}

/// The text for jobs with this reason, and their state.
fn words(reason: &'static str) -> (&'static str, JobState) {
    match reason {
        "not_due" => ("not due yet", JobState::Scheduled),
        "retry" => ("waiting for their next attempt", JobState::Retry),
        "key_held" => ("waiting for their key", JobState::Held),
        "no_worker_for_task" => ("parked: no live worker has their task", JobState::Parked),
        "unreadable" => ("parked: no live release can read them", JobState::Parked),
        "task_paused" => ("parked: their task is paused", JobState::Parked),
        "queue_paused" => ("in a paused queue", JobState::Ready),
        "no_worker" => ("without a worker", JobState::Ready),
        "workers_quiet" => ("whose workers claim nothing", JobState::Ready),
        "group_paused" => ("of a paused group", JobState::Ready),
        "group_full" => ("of a group at its cap", JobState::Ready),
        "out_of_order" => ("waiting for an earlier job of their ordered group", JobState::Ready),
        "limit_full" => ("waiting for a slot of a limit", JobState::Ready),
        "rate_limited" => ("waiting for the rate of a limit", JobState::Ready),
        "behind" => ("waiting behind other jobs", JobState::Ready),
        other => (other, JobState::Ready),
    }
}

fn tiles(snapshot: &Snapshot, rates: Option<Rates>) -> Vec<Tile> {
    let of = |state| snapshot.count(None, state);
    let oldest = snapshot.queues.iter().filter_map(|queue| queue.stats.oldest).max();
    let ready = of(JobState::Ready);
    let per_second = |of: fn(Rates) -> f64| rates.map_or_else(|| "–".to_owned(), |rates| rate(of(rates)));
    let workers = snapshot.details.workers.iter().filter(|worker| !worker.lease_left.is_zero()).count();
    let tone = |is_so: bool, tone: &'static str| if is_so { tone } else { "" };
    vec![
        Tile {
            name: "Ready",
            value: number(ready),
            tone: "",
            note: match oldest {
                _ if ready == 0 => "nothing waits".to_owned(),
                Some(age) => format!("oldest {}", span(age)),
                None => "the oldest is not known".to_owned(),
            },
            link: "/jobs?state=ready",
        },
        Tile {
            name: "Active",
            value: number(of(JobState::Active)),
            tone: "",
            note: format!("on {workers} {}", if workers == 1 { "worker" } else { "workers" }),
            link: "/jobs?state=active",
        },
        Tile { name: "Done", value: per_second(|rates| rates.done), tone: "", note: "jobs a second".to_owned(), link: "/jobs?state=done" },
        Tile {
            name: "Failed",
            value: per_second(|rates| rates.failed),
            tone: tone(rates.is_some_and(|rates| rates.failed >= 0.05), "warn"),
            note: "attempts a second".to_owned(),
            link: "/jobs?state=retry",
        },
        Tile {
            name: "Later",
            value: number(of(JobState::Scheduled) + of(JobState::Retry)),
            tone: "",
            note: format!("{} to be tried again", number(of(JobState::Retry))),
            link: "/jobs?state=scheduled",
        },
        Tile {
            name: "Dead",
            value: number(of(JobState::Dead)),
            tone: tone(of(JobState::Dead) > 0, "bad"),
            note: format!("{} parked", number(of(JobState::Parked))),
            link: "/jobs?state=dead",
        },
    ]
}

fn chart(history: &History) -> Chart {
    let place = |ago: Duration| 1.0 - ago.as_secs_f64() / History::window().as_secs_f64();
    let parts: Vec<Part> = history
        .steps()
        .iter()
        .map(|(ago, long, rates)| Part { from: place(*ago + *long), to: place(*ago), done: rates.done, failed: rates.failed })
        .collect();
    Chart::of(&parts, |most, now| {
        format!("Jobs done and failed a second in the last two minutes: at most {}, now {} done.", rate(most), rate(now))
    })
}

#[cfg(test)]
mod tests {
    use queue_core::inspect::Reason;

    use super::*;

    #[test]
    fn every_reason_that_is_counted_has_words() {
        // These reasons apply to a single job, and are not counted.
        let of_one = ["unreadable", "suspect", "reclaiming", "runs", "ended"];
        for reason in Reason::NAMES.into_iter().filter(|reason| !of_one.contains(reason)) {
            let (words, _) = words(reason);
            assert!(words != reason && !words.contains('_'), "{reason}: {words}");
        }
    }
}
