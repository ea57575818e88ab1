//! `jobs show`: all data of one job.

use std::{
    fmt::Write,
    time::{Duration, Instant, SystemTime},
};

use queue_core::{
    __private::LONGEST,
    Client, Error, JobState,
    inspect::{JobRecord, Reason},
};
use serde_json::json;

use super::{
    args::Format,
    exit::{Exit, Failure},
    output::{plain, print, print_json, relative_time, utc},
};

pub(super) async fn show(client: &Client, job: &str, format: &Format) -> Result<(), Failure> {
    let inspector = client.inspector();
    let job = inspector.find(job).await?;
    let mut record = inspector.show(&job).await?;
    if !record.state.is_final() {
        // The job may have ended and been deleted in the meantime.
        record.waiting = inspector.why(&job).await.map(|job| job.waiting).unwrap_or_default();
    }
    if format.json { Ok(print_json(&record)?) } else { Ok(print(&text(&record))?) }
}

/// `jobs why`: the reasons why a job does not run.
pub(super) async fn why(client: &Client, job: &str, format: &Format) -> Result<(), Failure> {
    let inspector = client.inspector();
    let record = inspector.why(&inspector.find(job).await?).await?;
    if format.json {
        return Ok(print_json(&json!({ "waiting": record.waiting }))?);
    }
    let now = SystemTime::now();
    let lines: Vec<String> = record.waiting.iter().map(|reason| reason_text(&record, reason, now) + &command(&record, reason)).collect();
    Ok(print(&lines.join("\n"))?)
}

/// `jobs wait`: waits until all jobs have ended.
pub(super) async fn wait(client: &Client, jobs: &[String], timeout: Duration, format: &Format) -> Result<(), Failure> {
    let (inspector, end) = (client.inspector(), Instant::now() + timeout.min(LONGEST));
    let mut addresses = Vec::with_capacity(jobs.len());
    for job in jobs {
        addresses.push(inspector.find(job).await?);
    }
    let (mut records, mut others, mut dropped) = (Vec::new(), Vec::new(), None);
    // One after the other, so that later records include jobs that have ended in the meantime.
    for address in &addresses {
        let record = inspector.wait(address, end.saturating_duration_since(Instant::now())).await?;
        if !format.json {
            print(&format!("{address} {}", describe_ending(&record)))?;
        }
        if record.state != JobState::Done {
            others.push(address.to_string());
        } else if let Err(error @ Error::ResultDropped { .. }) = record.result_json() {
            dropped.get_or_insert(error);
        }
        records.push(record);
    }
    if format.json {
        print_json(&json!({ "jobs": records }))?;
    }
    match dropped {
        _ if !others.is_empty() => Err(Failure::new(Exit::WrongState, format!("not done: {}", others.join(", ")))),
        Some(error) => Err(error.into()),
        None => Ok(()),
    }
}

/// The outcome of a job, or its state if it has not ended.
fn describe_ending(record: &JobRecord) -> String {
    let state = record.state;
    if let Err(Error::ResultDropped { problem, .. }) = record.result_json() {
        return format!("{state}, but its result was dropped: {}", plain(&problem));
    }
    let why = match state {
        JobState::Dead => record.last_error().map(str::to_owned).or_else(|| record.reason.map(|reason| reason.name().to_owned())),
        JobState::Cancelled => record.note.clone(),
        JobState::Done => record.result_json().unwrap_or_else(|error| Some(unreadable(error))),
        _ => None,
    };
    let has_not = if state.is_final() { "" } else { ", and has not ended" };
    format!("{state}{has_not}{}", why.map(|why| format!(": {}", plain(&why))).unwrap_or_default())
}

/// The command that ends a reason, if an operator can.
fn command(record: &JobRecord, reason: &Reason) -> String {
    let queue = &record.address.queue;
    let command = match reason {
        Reason::NotDue { .. } | Reason::Retry { .. } => format!("jobs promote {}", record.address),
        Reason::QueuePaused { .. } => format!("queues resume {queue}"),
        Reason::TaskPaused { task, .. } => format!("tasks resume {}", quoted_address(queue, task)),
        Reason::GroupPaused { group, .. } => format!("groups resume {}", quoted_address(queue, group.as_str())),
        Reason::GroupFull { group, .. } => format!("groups set {} --cap N", quoted_address(queue, group.as_str())),
        Reason::LimitFull { limit, .. } => format!("limits set {queue}/{limit} --concurrency N"),
        Reason::RateLimited { limit, rate: Some(_), .. } => format!("limits set {queue}/{limit} --rate N/TIME"),
        Reason::NoWorker => format!("work --queue {queue}"),
        _ => return String::new(),
    };
    format!("; `{command}` ends it")
}

/// `QUEUE/NAME` as one argument of a shell.
pub(super) fn quoted_address(queue: &str, name: &str) -> String {
    format!("'{}'", format!("{queue}/{}", plain(name)).replace('\'', r"'\''"))
}

/// A reason in one line, with its time and the jobs that it waits for.
fn reason_text(record: &JobRecord, reason: &Reason, now: SystemTime) -> String {
    let mut text = plain(&reason.to_string());
    if let Some(until) = reason.until() {
        let relative = relative_time(until, now);
        match utc(until) {
            Some(exact) => text.push_str(&format!("; until {exact} ({relative})")),
            None => text.push_str(&format!("; it ends {relative}")),
        }
    }
    if let Some(since) = reason.since() {
        let exact = utc(since).map(|exact| format!("{exact}, ")).unwrap_or_default();
        text.push_str(&format!("; its lease ended {exact}{}", relative_time(since, now)));
    }
    if !reason.holders().is_empty() {
        let holders: Vec<String> = reason.holders().iter().map(|id| format!("{}/{id}", record.address.queue)).collect();
        text.push_str(&format!("; it waits for {}", holders.join(", ")));
    }
    text
}

fn text(record: &JobRecord) -> String {
    let now = SystemTime::now();
    let mut lines = Lines(String::new());
    lines.add("job", &record.address.to_string());
    lines.add("task", record.task.as_deref().unwrap_or("(unreadable)"));
    lines.add("state", record.state.name());
    for (name, time) in
        [("enqueued", record.enqueued_at), ("due", record.due_at), ("ended", record.ended_at), ("expires", record.expires_at)]
    {
        if let Some(time) = time {
            let exact = utc(time).map(|time| format!(" ({time})")).unwrap_or_default();
            lines.add(name, &format!("{}{exact}", relative_time(time, now)));
        }
    }
    lines.add("priority", record.priority.name());
    lines.add("failures", &record.failures.to_string());
    for (name, count) in [("crashes", record.crashes), ("snoozes", record.snoozes), ("rate limited", record.rate_limited)] {
        if count > 0 {
            lines.add(name, &count.to_string());
        }
    }
    if record.returns > 0 {
        let last = record.returned_at.map(|at| format!(", last {}", relative_time(at, now))).unwrap_or_default();
        lines.add("returns", &format!("{}{last}", record.returns));
    }
    for reason in record.waiting.iter().filter(|_| record.running.is_none()) {
        lines.add("waits", &reason_text(record, reason, now));
    }
    if let Some(running) = &record.running {
        lines.add("runs", &super::jobs::runs(running, now));
    }
    if let Some(progress) = &record.progress {
        // The last report of a job is seldom its end.
        lines.add(if record.state.is_final() { "last report" } else { "progress" }, &super::logs::progress(progress, now));
    }
    let reason = record.reason.map(|reason| reason.name());
    for (name, value) in [("receipt", record.receipt.as_deref()), ("reason", reason), ("note", record.note.as_deref())] {
        if let Some(value) = value {
            lines.add(name, value);
        }
    }
    if let Some(unreadable) = &record.unreadable {
        let dead = unreadable.dead_at.map(|at| format!("; becomes a dead letter {}", relative_time(at, now))).unwrap_or_default();
        lines.add("unread by", &format!("{}{dead}", unreadable.releases.join(", ")));
    }
    if let Some(key) = record.unique {
        let text = record.unique_key.clone().filter(|text| *text != key.to_string()).map(|text| format!(" ({text})"));
        lines.add("unique", &format!("{key}{}", text.unwrap_or_default()));
    }
    if let Some(at) = record.rises_at {
        lines.add("rises", &relative_time(at, now));
    }
    if let Some(group) = &record.group {
        lines.add("group", group.as_str());
    }
    for (name, key) in &record.limits {
        lines.add("limit", &if key.is_empty() { name.clone() } else { format!("{name} by {key}") });
    }
    if record.cost != 1 {
        lines.add("cost", &record.cost.to_string());
    }
    for (name, value) in &record.tags {
        lines.add("tag", &format!("{name}={value}"));
    }
    for (name, value) in &record.headers {
        lines.add("header", &format!("{name}={value}"));
    }
    match record.payload_json() {
        Ok(payload) => lines.add("payload", &payload),
        Err(error) => {
            lines.add("payload", &unreadable(error));
            lines.add("bytes", &record.stored().iter().map(|byte| format!("{byte:02x}")).collect::<String>());
        }
    }
    if let Some(print) = record.failure() {
        lines.add("failure", &print.to_string());
    }
    for error in &record.errors {
        let when = error.at.map(|at| format!("{}: ", relative_time(at, now))).unwrap_or_default();
        lines.add("error", &format!("{when}{}", error.message));
    }
    if let Some(result) = record.result_json().unwrap_or_else(|error| Some(unreadable(error))) {
        lines.add("result", &result);
    }
    lines.0
}

fn unreadable(error: Error) -> String {
    match error {
        Error::ResultDropped { problem, .. } => format!("(dropped: {problem})"),
        Error::Decode { problem, .. } => format!("(unreadable: {problem})"),
        error => format!("(unreadable: {error})"),
    }
}

/// `name value`, one per line. Further lines of a value are indented.
struct Lines(String);

impl Lines {
    fn add(&mut self, name: &str, value: &str) {
        for (i, line) in value.lines().enumerate() {
            let name = if i == 0 { name } else { "" };
            // Writing to a String cannot fail.
            let _ = writeln!(self.0, "{name:<9} {}", plain(line));
        }
    }
}

#[cfg(test)]
mod tests {
    use queue_core::{
        RawJob,
        inspect::{GroupName, Pause, Rate},
    };

    use super::*;
    use crate::args;

    #[tokio::test]
    async fn the_command_that_ends_a_reason_is_accepted() {
        let client = Client::connect("sqlite://:memory:").await.unwrap();
        let (address, _) = client.enqueue_raw(RawJob::new("mail.send", vec![0x80]).queue("mail")).await.unwrap();
        let record = client.inspector().show(&address).await.unwrap();
        let (group, pause) = (GroupName::new("o'neil & sons").unwrap(), Pause::default());
        let (limit, key) = ("smtp".to_owned(), String::new());
        let rate = "10/1m".parse::<Rate>().ok();
        let reasons = [
            Reason::NotDue { until: None },
            Reason::Retry { until: None, failures: 1 },
            Reason::QueuePaused { pause: pause.clone() },
            Reason::TaskPaused { task: "mail.send".to_owned(), pause: pause.clone() },
            Reason::GroupPaused { group: group.clone(), pause },
            Reason::GroupFull { group, cap: 1, running: 1, holders: Vec::new() },
            Reason::LimitFull { limit: limit.clone(), key: key.clone(), concurrency: 1, running: 1, holders: Vec::new() },
            Reason::RateLimited { limit, key, rate, until: None },
        ];
        for reason in reasons {
            let text = command(&record, &reason);
            let command = text.strip_prefix("; `").and_then(|text| text.strip_suffix("` ends it")).unwrap();
            let command = command.replace("N/TIME", "10/1m").replace(" N", " 3");
            // The quoted word is the only one with an apostrophe or a space.
            let words: Vec<String> = match command.split_once(" '") {
                Some((before, quoted)) => {
                    let (word, after) = quoted.rsplit_once('\'').unwrap();
                    let word = word.replace(r"'\''", "'");
                    before.split(' ').map(str::to_owned).chain([word]).chain(after.split_whitespace().map(str::to_owned)).collect()
                }
                None => command.split(' ').map(str::to_owned).collect(),
            };
            let read = args::operator_command().try_get_matches_from([&["queue".to_owned()][..], &words].concat());
            assert!(read.is_ok(), "{command}: {read:?}");
        }
    }
}
