//! The page History: the reports of the workers for the last hour, day or two weeks, of a queue or
//! of all, and of each task.

use std::{
    collections::BTreeMap,
    sync::Arc,
    time::{Duration, SystemTime},
};

use askama::Template;
use axum::{
    Extension,
    extract::{RawQuery, State},
    http::StatusCode,
    response::Response,
};
use queue_core::{
    broker::history::OTHERS,
    inspect::{History, HistoryRow, HistorySpan, Times},
};

use super::{
    Content, Stale,
    chart::{Chart, Part},
    full_page, render,
};
use crate::{
    format::{Moment, number, rate, span as long},
    guard::Viewer,
    params::{Params, query},
    problem::Problem,
    shared::Shared,
};

/// The maximum number of queues that are added up.
const QUEUES: usize = 50;

/// The selectable spans: name in the address, label, and label of the start of the chart.
const SPANS: [(&str, &str, HistorySpan); 3] =
    [("1h", "1 hour", HistorySpan::HOUR), ("24h", "24 hours", HistorySpan::DAY), ("14d", "14 days", HistorySpan::TWO_WEEKS)];

#[derive(Template)]
#[template(path = "history.html")]
struct Page<'a> {
    viewer: &'a Viewer,
    stale: Option<Stale>,
    queue: String,
    /// The requested name, if no queue has it.
    unknown: String,
    /// All queues, for the selection.
    queues: Vec<String>,
    left_out: usize,
    spans: Vec<Choice>,
    span: &'static str,
    seen: Option<Seen>,
}

struct Choice {
    key: &'static str,
    name: &'static str,
    link: String,
    is_chosen: bool,
}

struct Seen {
    chart: Chart,
    /// The totals of all tasks, if there are several.
    total: Option<Row>,
    rows: Vec<Row>,
    most_ready: Option<String>,
    is_empty: bool,
}

impl Seen {
    /// The rows of the tasks and of the totals.
    fn rows_and_total(&self) -> impl Iterator<Item = &Row> {
        self.rows.iter().chain(&self.total)
    }
}

/// The counts of a task, or of all tasks.
struct Row {
    name: String,
    done: String,
    failed: String,
    fails: bool,
    dead: String,
    dies: bool,
    wait: Quantiles,
    run: Quantiles,
    done_count: u64,
}

struct Quantiles {
    p50: String,
    p95: String,
    p99: String,
}

impl Quantiles {
    fn of(times: &Times) -> Self {
        let text = |time: Option<Duration>| time.map_or_else(|| "–".to_owned(), short);
        Quantiles { p50: text(times.p50()), p95: text(times.p95()), p99: text(times.p99()) }
    }
}

/// A time with two digits: `0.42 ms`, `17 ms`, `2.5 s`. From ten seconds on it has the usual
/// format.
fn short(time: Duration) -> String {
    let ms = time.as_secs_f64() * 1000.0;
    match ms {
        ..1.0 => format!("{ms:.2} ms"),
        ..10.0 => format!("{ms:.1} ms"),
        ..1000.0 => format!("{ms:.0} ms"),
        ..10_000.0 => format!("{:.1} s", ms / 1000.0),
        _ => long(time),
    }
}

impl Row {
    fn new(name: &str, row: &HistoryRow) -> Self {
        let counts = &row.counts;
        Row {
            name: if name == OTHERS { "other tasks".to_owned() } else { name.to_owned() },
            done: number(counts.done),
            failed: number(counts.failed),
            fails: counts.failed > 0,
            dead: number(counts.dead),
            dies: counts.dead > 0,
            wait: Quantiles::of(&row.wait),
            run: Quantiles::of(&row.run),
            done_count: counts.done + counts.failed,
        }
    }
}

pub(crate) async fn page(State(shared): State<Arc<Shared>>, Extension(viewer): Extension<Viewer>, RawQuery(query): RawQuery) -> Response {
    match content(&shared, &viewer, &Params::parse(query.unwrap_or_default().as_bytes())).await {
        Ok(content) => full_page(&shared, &viewer, &content),
        Err(problem) => problem.page(&viewer),
    }
}

async fn content(shared: &Shared, viewer: &Viewer, params: &Params) -> Result<Content, Problem> {
    let (key, name, span) = SPANS.into_iter().find(|(key, ..)| params.get("span") == Some(key)).unwrap_or(SPANS[0]);
    let view = shared.view().await;
    let known: Vec<String> = view.snapshot.iter().flat_map(|snapshot| snapshot.queues.iter().map(|queue| queue.name.clone())).collect();
    // An unknown queue is not read.
    let wanted = params.text::<64>("queue");
    let (queue, unknown) = if known.contains(&wanted) { (wanted, String::new()) } else { (String::new(), wanted) };
    let asked: Vec<String> = if queue.is_empty() { known.iter().take(QUEUES).cloned().collect() } else { vec![queue.clone()] };
    let _permit = shared.list_permit().await?;
    let mut histories = Vec::with_capacity(asked.len());
    for asked in &asked {
        histories.push(shared.inspector.history(asked, span).await?);
    }
    let choice = |(key_of, name, _): (&'static str, &'static str, HistorySpan)| Choice {
        key: key_of,
        name,
        link: query(&[("queue", &queue), ("span", key_of)]),
        is_chosen: key_of == key,
    };
    let page = Page {
        viewer,
        stale: Stale::of(&view),
        spans: SPANS.map(choice).into(),
        span: name,
        left_out: if queue.is_empty() { known.len() - asked.len() } else { 0 },
        seen: view.snapshot.as_ref().map(|_| summarize(histories, span)),
        queue,
        unknown: if view.problem.is_some() { String::new() } else { unknown },
        queues: known,
    };
    let status = if page.seen.is_some() { StatusCode::OK } else { StatusCode::SERVICE_UNAVAILABLE };
    Ok(Content { title: "History".to_owned(), tab: "history", html: render(&page)?, status, live: None, notice: None })
}

fn summarize(histories: Vec<History>, span: HistorySpan) -> Seen {
    let mut tasks: BTreeMap<String, HistoryRow> = BTreeMap::new();
    for history in &histories {
        for task in history.tasks.keys() {
            let Some(total) = history.total_of(task) else { continue };
            match tasks.get_mut(task) {
                Some(row) => row.merge(&total),
                None => drop(tasks.insert(task.clone(), total)),
            }
        }
    }
    let mut rows: Vec<Row> = tasks.iter().map(|(task, row)| Row::new(task, row)).collect();
    rows.sort_by_key(|row| std::cmp::Reverse(row.done_count));
    let Some(all) = History::merged(histories) else {
        return Seen { chart: Chart::default(), total: None, rows, most_ready: None, is_empty: true };
    };
    let total = all.total();
    let (slots, step) = (all.rows.len().max(1) as f64, span.step().as_secs_f64());
    let parts: Vec<Part> = all
        .rows
        .iter()
        .enumerate()
        .map(|(at, row)| Part {
            from: at as f64 / slots,
            to: (at + 1) as f64 / slots,
            done: row.counts.done as f64 / step,
            failed: row.counts.failed as f64 / step,
        })
        .collect();
    let mut chart = Chart::of(&parts, |most, _| {
        format!(
            "{} jobs done and {} failed attempts; at most {} a second.",
            number(total.counts.done),
            number(total.counts.failed),
            rate(most)
        )
    });
    let now = SystemTime::now();
    let begin = all.rows.first().map_or(now, |row| row.at);
    for seen in &all.releases {
        let age = seen.at.duration_since(begin).unwrap_or_default().as_secs_f64();
        chart.mark(age / (slots * step), &seen.release, Moment::new(seen.at, now));
    }
    Seen {
        chart,
        is_empty: total.counts.started == 0 && total.counts.done == 0 && total.counts.dead == 0,
        most_ready: total.ready.map(number),
        total: (rows.len() > 1).then(|| Row::new("all tasks", &total)),
        rows,
    }
}
