//! `status --history`: the history of queues, by minute or by hour.

use std::time::{Duration, SystemTime};

use queue_core::{
    Client,
    inspect::{History, HistoryRow, HistorySpan},
};
use serde::Serialize;

use super::{
    exit::Failure,
    output::{exact_duration, print, print_json, utc},
    queues::{self, Unreadable},
    table::{
        self,
        Column::{self, Made},
    },
};

#[derive(Serialize)]
struct Answer {
    queues: Vec<History>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    unreadable: Vec<Unreadable>,
}

/// A span by its length: by minute up to two hours, by hour for longer ones.
pub(super) fn parse_span(text: &str) -> Result<HistorySpan, String> {
    let time = super::args::duration(text)?;
    let (minutes, hours) = (time.as_secs().div_ceil(60), time.as_secs().div_ceil(3600));
    match (u32::try_from(minutes), u32::try_from(hours)) {
        (Ok(minutes @ 1..=120), _) => Ok(HistorySpan::minutes(minutes)),
        (_, Ok(hours @ 1..=336)) => Ok(HistorySpan::hours(hours)),
        _ => Err("a history goes back from one minute to two weeks; write for example `1h`, `24h` or `14d`".to_owned()),
    }
}

pub(super) async fn history(client: &Client, queue: Option<&str>, span: HistorySpan, json: bool) -> Result<(), Failure> {
    let mut answer = Answer { queues: Vec::new(), unreadable: Vec::new() };
    for queue in queues::selected_queues(client, queue).await? {
        match client.inspector().history(&queue, span).await {
            Ok(history) => answer.queues.push(history),
            Err(error) => answer.unreadable.push(Unreadable::from(&queue, error)?),
        }
    }
    if json {
        print_json(&answer)?;
        return Unreadable::report(&answer.unreadable);
    }
    let named = answer.queues.len();
    let text = match History::merged(answer.queues) {
        None => "there are no queues: no job was ever enqueued, and no worker has run".to_owned(),
        Some(all) => text(&all, queue, named),
    };
    print(&text)?;
    Unreadable::report(&answer.unreadable)
}

fn text(all: &History, queue: Option<&str>, queues: usize) -> String {
    let of = queue.map_or_else(|| format!("{queues} {}", if queues == 1 { "queue" } else { "queues" }), str::to_owned);
    let (mut lines, mut releases) = (Vec::new(), all.releases.iter().peekable());
    for row in &all.rows {
        lines.push(Line { since: time(row.at), row: Some(row.clone()), release: None });
        // A release is listed after the minute or hour in which it first appeared.
        while let Some(seen) = releases.next_if(|seen| seen.at < row.at + all.step) {
            lines.push(Line { since: time(seen.at), row: None, release: Some(seen.release.clone()) });
        }
    }
    lines.push(Line { since: "all".to_owned(), row: Some(all.total()), release: None });
    format!("{of}, each line {}\n{}", exact_duration(all.step), table::text(&lines, &COLUMNS))
}

/// A line of the table: the counts of a minute or hour, or a release.
#[derive(Serialize)]
struct Line {
    since: String,
    row: Option<HistoryRow>,
    release: Option<String>,
}

impl Line {
    fn number(&self, of: impl FnOnce(&HistoryRow) -> Option<u64>) -> String {
        self.row.as_ref().map_or_else(String::new, |row| match of(row) {
            None => "?".to_owned(),
            Some(0) => "-".to_owned(),
            Some(n) => n.to_string(),
        })
    }
}

const COLUMNS: [Column<Line>; 8] = [
    Made("since", |line| line.since.clone()),
    Made("#enqueued", |line| line.number(|row| row.enqueued)),
    Made("#started", |line| line.number(|row| Some(row.counts.started))),
    Made("#done", |line| line.number(|row| Some(row.counts.done))),
    Made("#failed", |line| line.number(|row| Some(row.counts.failed))),
    Made("#dead", |line| line.number(|row| Some(row.counts.dead))),
    Made("#ready", |line| line.number(|row| row.ready)),
    Made("run p50, p95", |line| match (&line.row, &line.release) {
        (Some(row), _) if row.run.count() > 0 => format!("{}, {}", run(row.run.p50()), run(row.run.p95())),
        (None, Some(release)) => format!("release {release}"),
        _ => "-".to_owned(),
    }),
];

fn run(time: Option<Duration>) -> String {
    time.map_or_else(|| "-".to_owned(), |time| format!("{:.1}ms", time.as_secs_f64() * 1e3))
}

fn time(at: SystemTime) -> String {
    // Rounded to seconds, because these times are not more precise.
    utc(at).map_or_else(String::new, |text| format!("{}Z", text.split('.').next().unwrap_or_default()))
}
