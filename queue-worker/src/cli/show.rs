//! `jobs show`: all that is known of one job.

use std::{fmt::Write, time::SystemTime};

use queue_core::{Client, Error, JobRecord};

use super::{
    args::Format,
    exit::Failure,
    output::{plain, print, print_json, relative, utc},
};

pub(super) async fn show(client: &Client, job: &str, format: &Format) -> Result<(), Failure> {
    let inspector = client.inspector();
    let record = inspector.show(&inspector.find(job).await?).await?;
    if format.json { Ok(print_json(&record)?) } else { Ok(print(&text(&record))?) }
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
            lines.add(name, &format!("{}{exact}", relative(time, now)));
        }
    }
    lines.add("priority", record.priority.name());
    lines.add("failures", &record.failures.to_string());
    for (name, count) in [("crashes", record.crashes), ("snoozes", record.snoozes)] {
        if count > 0 {
            lines.add(name, &count.to_string());
        }
    }
    if let Some(running) = &record.running {
        lines.add("runs", &super::jobs::runs(running, now));
    }
    let reason = record.reason.map(|reason| reason.name());
    for (name, value) in [("held by", record.tag.as_deref()), ("reason", reason), ("note", record.note.as_deref())] {
        if let Some(value) = value {
            lines.add(name, value);
        }
    }
    if let Some(unreadable) = &record.unreadable {
        let buried = unreadable.buried_at.map(|at| format!("; buried {}", relative(at, now))).unwrap_or_default();
        lines.add("unread by", &format!("{}{buried}", unreadable.releases.join(", ")));
    }
    if let Some(key) = record.unique {
        let text = record.unique_key.clone().filter(|text| *text != key.to_string()).map(|text| format!(" ({text})"));
        lines.add("unique", &format!("{key}{}", text.unwrap_or_default()));
    }
    if let Some(group) = &record.group {
        lines.add("group", group.as_str());
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
    for error in &record.errors {
        let when = error.at.map(|at| format!("{}: ", relative(at, now))).unwrap_or_default();
        lines.add("error", &format!("{when}{}", error.message));
    }
    if let Some(result) = record.result_json().unwrap_or_else(|error| Some(unreadable(error))) {
        lines.add("result", &result);
    }
    lines.0
}

fn unreadable(error: Error) -> String {
    match error {
        Error::Decode { problem, .. } => format!("(unreadable: {problem})"),
        error => format!("(unreadable: {error})"),
    }
}

/// `name   value`, one per line; further lines of a value are set in.
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
