//! `jobs show`: all that is known of one job.

use std::{collections::BTreeMap, fmt::Write, time::SystemTime};

use queue_core::{Client, JobAddress, broker::JobRecord, envelope::Envelope, payload::to_json};
use serde::Serialize;
use serde_json::Value;

use super::{
    args::Format,
    exit::Failure,
    jobs::Row,
    output::{plain, print, print_json, relative, utc},
};

#[derive(Serialize)]
struct Shown {
    #[serde(flatten)]
    row: Row,
    /// The lane that holds it, and the claim number.
    tag: Option<String>,
    /// By the producer's estimate of the broker's time.
    enqueued_at: Option<String>,
    max_attempts: Option<u32>,
    timeout_ms: Option<u64>,
    retention_ms: Option<u64>,
    expires_at: Option<String>,
    headers: BTreeMap<String, String>,
    args: Option<Value>,
    /// What cannot be read, and why. The bytes follow in hexadecimal.
    undecodable: Option<String>,
    bytes: Option<String>,
    failures: Vec<FailureRow>,
    result: Option<Value>,
}

#[derive(Serialize)]
struct FailureRow {
    at: Option<String>,
    message: String,
    #[serde(skip)]
    at_ms: i64,
}

pub(super) async fn show(client: &Client, job: &str, format: &Format) -> Result<(), Failure> {
    let inspector = client.inspector();
    let address = inspector.find(job).await?;
    let shown = shown(&address, inspector.show(&address).await?);
    if format.json { Ok(print_json(&shown)?) } else { Ok(print(&text(&shown))?) }
}

fn shown(address: &JobAddress, record: JobRecord) -> Shown {
    let envelope = Envelope::decode(&record.envelope);
    let args = envelope.as_ref().map_err(ToString::to_string).and_then(|envelope| json(envelope.payload));
    let undecodable = args.as_ref().err().cloned();
    let bytes = undecodable.is_some().then(|| record.envelope.iter().map(|byte| format!("{byte:02x}")).collect());
    let envelope = envelope.ok();
    Shown {
        row: Row::new(&address.queue, &record),
        tag: record.tag,
        enqueued_at: envelope.as_ref().and_then(|envelope| envelope.enqueued_ms).and_then(utc),
        max_attempts: envelope.as_ref().and_then(|envelope| envelope.max_attempts),
        timeout_ms: envelope.as_ref().and_then(|envelope| envelope.timeout_ms),
        retention_ms: envelope.as_ref().and_then(|envelope| envelope.retention_ms),
        expires_at: envelope.as_ref().and_then(|envelope| envelope.expires_ms).and_then(utc),
        headers: envelope.map(|envelope| envelope.headers).unwrap_or_default(),
        args: args.ok(),
        undecodable,
        bytes,
        failures: record
            .failures
            .into_iter()
            .map(|failure| FailureRow { at: utc(failure.at_ms), message: failure.message, at_ms: failure.at_ms })
            .collect(),
        result: record.result.map(|result| json(&result).unwrap_or_else(|problem| Value::String(format!("(unreadable: {problem})")))),
    }
}

fn json(bytes: &[u8]) -> Result<Value, String> {
    serde_json::from_str(&to_json(bytes)?).map_err(|error| error.to_string())
}

fn text(shown: &Shown) -> String {
    let (row, now) = (&shown.row, SystemTime::now());
    let mut lines = Lines(String::new());
    lines.add("job", &row.job);
    lines.add("task", row.task.as_deref().unwrap_or("(unreadable)"));
    lines.add("state", row.state);
    if let (Some(at), Some(at_ms)) = (&row.at, row.at_ms) {
        lines.add("when", &format!("{} ({at})", relative(at_ms, now)));
    }
    if let Some(at) = &shown.enqueued_at {
        lines.add("enqueued", at);
    }
    lines.add("priority", row.priority);
    lines.add("attempts", &row.attempts.to_string());
    for (name, count) in [("crashes", row.crashes), ("snoozes", row.snoozes)] {
        if count > 0 {
            lines.add(name, &count.to_string());
        }
    }
    for (name, value) in [("held by", shown.tag.as_deref()), ("reason", row.reason), ("note", row.note.as_deref())] {
        if let Some(value) = value {
            lines.add(name, value);
        }
    }
    for (name, value) in &shown.headers {
        lines.add("header", &format!("{name}={value}"));
    }
    match (&shown.args, &shown.undecodable) {
        (Some(args), _) => lines.add("args", &args.to_string()),
        (None, Some(problem)) => {
            lines.add("args", &format!("(unreadable: {problem})"));
            lines.add("bytes", shown.bytes.as_deref().unwrap_or_default());
        }
        (None, None) => {}
    }
    for failure in &shown.failures {
        lines.add("failure", &format!("{}: {}", relative(failure.at_ms, now), failure.message));
    }
    if let Some(result) = &shown.result {
        lines.add("result", &result.to_string());
    }
    lines.0
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
