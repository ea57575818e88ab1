//! `status --history`: the history of queues, by minute or by hour.

use std::time::{Duration, SystemTime};

use queue_core::{
    Client,
    inspect::{History, HistoryRow, HistorySpan},
};
use serde::Serialize;

use super::{
    exit::Failure,
    output::{exact, plain, print, print_json, table, utc},
    queues::{self, Unreadable},
};

#[derive(Serialize)]
struct Answer {
    queues: Vec<History>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    unreadable: Vec<Unreadable>,
}

/// A span by its length: minutes up to two hours, hours beyond.
pub(super) fn span(text: &str) -> Result<HistorySpan, String> {
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
    for queue in queues::chosen(client, queue).await? {
        match client.inspector().history(&queue, span).await {
            Ok(history) => answer.queues.push(history),
            Err(error) => answer.unreadable.push(Unreadable::from(&queue, error)?),
        }
    }
    if json {
        print_json(&answer)?;
        return Unreadable::tell(&answer.unreadable);
    }
    let named = answer.queues.len();
    let text = match History::merged(answer.queues) {
        None => "there are no queues: no job was ever enqueued, and no worker has run".to_owned(),
        Some(all) => text(&all, queue, named),
    };
    print(&text)?;
    Unreadable::tell(&answer.unreadable)
}

fn text(all: &History, queue: Option<&str>, queues: usize) -> String {
    let of = queue.map_or_else(|| format!("{queues} {}", if queues == 1 { "queue" } else { "queues" }), str::to_owned);
    let mut rows: Vec<[String; 8]> = Vec::new();
    let mut releases = all.releases.iter().peekable();
    for row in &all.rows {
        rows.push(cells(time(row.at), row));
        // A release stands below the minute or hour in which it was first seen.
        while let Some(seen) = releases.next_if(|seen| seen.at < row.at + all.step) {
            let mut line: [String; 8] = Default::default();
            (line[0], line[7]) = (time(seen.at), format!("release {}", plain(&seen.release)));
            rows.push(line);
        }
    }
    rows.push(cells("all".to_owned(), &all.total()));
    let headings = ["since", "#enqueued", "#started", "#done", "#failed", "#dead", "#ready", "run p50, p95"];
    format!("{of}, each line {}\n{}", exact(all.step), table(&headings, rows))
}

fn time(at: SystemTime) -> String {
    // To the second: nothing here is more precise.
    utc(at).map_or_else(String::new, |text| format!("{}Z", text.split('.').next().unwrap_or_default()))
}

fn cells(at: String, row: &HistoryRow) -> [String; 8] {
    let number = |n: u64| if n == 0 { "-".to_owned() } else { n.to_string() };
    let known = |n: Option<u64>| n.map_or_else(|| "?".to_owned(), number);
    let run = |time: Option<Duration>| time.map_or_else(|| "-".to_owned(), |time| format!("{:.1}ms", time.as_secs_f64() * 1e3));
    let counts = &row.counts;
    let times = if row.run.count() == 0 { "-".to_owned() } else { format!("{}, {}", run(row.run.p50()), run(row.run.p95())) };
    [
        at,
        known(row.enqueued),
        number(counts.started),
        number(counts.done),
        number(counts.failed),
        number(counts.dead),
        known(row.ready),
        times,
    ]
}
