//! `status`: depth and counters of the queues.

use std::collections::BTreeMap;

use queue_core::{
    Client, Error,
    broker::{JobState, OutboxRecord, QueueStats},
    inspect::{HistorySpan, OutboxDepth},
};
use serde::Serialize;

use super::{
    again::{Again, QueueArgs},
    condition,
    doctor::{Problem, topics},
    exit::Failure,
    history,
    output::{print, print_json, rounded_duration, wrap},
    parked::Parked,
    pauses,
    queues::{self, Unreadable},
    table::{
        self,
        Column::{self, Field, Made},
    },
};

#[derive(Serialize)]
struct Status {
    broker: &'static str,
    location: String,
    /// The failures that acknowledged jobs survive, at least.
    durability: &'static str,
    #[serde(flatten)]
    condition: condition::Shown,
    queues: Vec<QueueStatus>,
    /// The queues that cannot be read.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    unreadable: Vec<Unreadable>,
    /// Parked jobs that releases could not read.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    unreadable_jobs: Vec<Parked>,
    /// The last reports of relays.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    outboxes: Vec<OutboxRecord>,
    /// Problems of topics, with the text of `doctor`.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    topic_warnings: Vec<Problem>,
}

#[derive(Serialize)]
pub(super) struct QueueStatus {
    queue: String,
    #[serde(flatten)]
    stats: QueueStats,
    /// The maximum number of jobs that wait for each reason.
    waiting: BTreeMap<&'static str, u64>,
}

impl QueueStatus {
    fn jobs(&self, state: JobState) -> String {
        match self.stats.count(state) {
            0 => "-".to_owned(),
            jobs => jobs.to_string(),
        }
    }
}

const COLUMNS: [Column<QueueStatus>; 15] = [
    Field("queue"),
    Made("#scheduled", |row| row.jobs(JobState::Scheduled)),
    Made("#ready", |row| row.jobs(JobState::Ready)),
    Made("oldest", |row| row.stats.oldest.map_or_else(|| "-".to_owned(), rounded_duration)),
    Made("#active", |row| row.jobs(JobState::Active)),
    Made("#retry", |row| row.jobs(JobState::Retry)),
    Made("#parked", |row| row.jobs(JobState::Parked)),
    Made("#held", |row| row.jobs(JobState::Held)),
    Made("#done", |row| row.jobs(JobState::Done)),
    Made("#dead", |row| row.jobs(JobState::Dead)),
    Made("#cancelled", |row| row.jobs(JobState::Cancelled)),
    Made("#expired", |row| row.jobs(JobState::Expired)),
    Field("workers"),
    Field("lanes"),
    Made("paused", |row| pauses::describe_pause(row.stats.pause.as_ref(), 40)),
];

#[derive(Debug, clap::Args)]
pub(super) struct StatusArgs {
    #[command(flatten)]
    of: QueueArgs,
    /// Print the history of the last hour, or of a time such as `24h`: by minute up to two hours,
    /// by hour beyond
    #[arg(long, value_name = "TIME", num_args = 0..=1, require_equals = true, default_missing_value = "1h", value_parser = history::parse_span)]
    history: Option<HistorySpan>,
    #[command(flatten)]
    again: Again,
}

pub(super) async fn status(client: &Client, args: &StatusArgs) -> Result<(), Failure> {
    let of = &args.of;
    match args.history {
        Some(span) => args.again.print(async || history::history(client, of.queue.as_deref(), span, of.format.json).await).await,
        None => args.again.print(async || print_status(client, of).await).await,
    }
}

async fn print_status(client: &Client, args: &QueueArgs) -> Result<(), Failure> {
    let info = client.info();
    let durability = client.inspector().durability().await?;
    let condition = client.inspector().condition().await?;
    let (figures, unreadable) = queues::read_stats(client, queues::selected_queues(client, args.queue.as_deref()).await?).await?;
    let mut unreadable_jobs = Vec::new();
    for (queue, stats) in &figures {
        let parked = Parked::of(&client.inspector(), queue, stats).await?;
        unreadable_jobs.extend(parked.into_iter().filter(Parked::is_unreadable));
    }
    let mut topic_warnings = Vec::new();
    if args.queue.is_none() {
        match topics::add_advice(&client.inspector(), &mut topic_warnings).await {
            // `doctor` reports that.
            Err(Error::WrongType { .. }) => {}
            advised => advised?,
        }
    }
    // Several queues may have reports of one outbox.
    let outboxes = OutboxRecord::merged(figures.iter().flat_map(|(_, stats)| stats.outboxes.clone()));
    let mut rows = Vec::new();
    for (queue, mut stats) in figures {
        stats.outboxes.clear();
        let waiting = client.inspector().waiting(&queue).await?;
        rows.push(QueueStatus { queue, stats, waiting });
    }
    if args.format.json {
        let (durability, condition) = (durability.name(), condition.into());
        let (broker, location) = (info.kind, info.location);
        let status =
            Status { broker, location, durability, condition, queues: rows, unreadable, unreadable_jobs, outboxes, topic_warnings };
        print_json(&status)?;
        return Unreadable::report(&status.unreadable);
    }
    let mut text = format!("{} {}\n{durability}: {}\n", info.kind, info.location, durability.meaning());
    text.push_str(&condition::text(&condition));
    if rows.is_empty() && unreadable.is_empty() {
        text.push_str("there are no queues: no job was ever enqueued, and no worker has run");
    } else {
        text.push_str(&table::text(&rows, &COLUMNS));
    }
    for row in &rows {
        // Jobs with other reasons have a column.
        let is_shown = |reason: &str| !["not_due", "retry", "key_held", "behind"].contains(&reason);
        let waiting = row.waiting.iter().filter(|(reason, _)| is_shown(reason));
        let reasons: Vec<String> = waiting.map(|(reason, jobs)| format!("{jobs} {}", reason.replace('_', " "))).collect();
        if !reasons.is_empty() {
            text.push_str(&format!("\n{} waits: {}", row.queue, reasons.join(", ")));
        }
    }
    for parked in &unreadable_jobs {
        text.push_str(&format!("\n{}: {}", parked.queue, parked.text()));
    }
    if !outboxes.is_empty() {
        text.push_str(&format!("\n\n{}", outboxes_text(&outboxes)));
    }
    for Problem { queue, problem, .. } in &topic_warnings {
        let queue = queue.as_ref().map(|queue| format!("{queue}: ")).unwrap_or_default();
        text.push_str(&format!("\n{queue}{problem}"));
    }
    print(&wrap(&text))?;
    Unreadable::report(&unreadable)
}

const OUTBOXES: [Column<(OutboxRecord, Option<OutboxDepth>)>; 7] = [
    Made("outbox", |(outbox, _)| outbox.database.clone()),
    Made("queue", |(_, depth)| depth.as_ref().map_or_else(|| "-".to_owned(), |depth| depth.queue.clone())),
    Made("#waiting", |(_, depth)| depth.as_ref().map_or(0, |depth| depth.waiting).to_string()),
    Made("oldest", |(_, depth)| depth.as_ref().and_then(|depth| depth.oldest).map_or_else(|| "-".to_owned(), rounded_duration)),
    Made("#in flight", |(_, depth)| depth.as_ref().map_or(0, |depth| depth.in_flight).to_string()),
    Made("#refused", |(_, depth)| depth.as_ref().map_or(0, |depth| depth.refused).to_string()),
    Made("relay", |(outbox, depth)| match outbox.is_stale() {
        true => format!("not reported since {}", humantime::format_rfc3339_seconds(outbox.reported_at)),
        false => depth.as_ref().and_then(|depth| depth.holder.clone()).unwrap_or_else(|| "-".to_owned()),
    }),
];

/// A line for each queue of each outbox, and its problems.
fn outboxes_text(outboxes: &[OutboxRecord]) -> String {
    let mut rows = Vec::new();
    for outbox in outboxes {
        let empty = outbox.queues.is_empty().then_some(None);
        rows.extend(outbox.queues.iter().cloned().map(Some).chain(empty).map(|depth| (outbox.clone(), depth)));
    }
    let mut text = table::text(&rows, &OUTBOXES);
    for (problem, _) in outboxes.iter().flat_map(OutboxRecord::problems) {
        text.push_str(&format!("\n{problem}"));
    }
    text
}

#[cfg(test)]
mod tests {
    use std::time::{Duration, UNIX_EPOCH};

    use super::*;

    #[test]
    fn an_outbox_is_a_row_of_each_queue_and_reports_since_when_nobody_has_reported_it() {
        let mut mail = OutboxDepth::new("mail");
        (mail.waiting, mail.oldest, mail.holder) = (1_200, Some(Duration::from_secs(3)), Some("web-1 pid 7".to_owned()));
        let mut shop = OutboxRecord::new(b"\x01", "shop.db", 9, None, vec![mail, OutboxDepth::new("@orders")]);
        let text = outboxes_text(std::slice::from_ref(&shop));
        for part in ["shop.db", "@orders", "mail", "1200", "3s", "web-1 pid 7"] {
            assert!(text.contains(part), "no `{part}`: {text}");
        }
        assert!(!text.contains("not reported"), "{text}");
        (shop.age, shop.reported_at) = (Duration::from_secs(3_600), UNIX_EPOCH + Duration::from_secs(86_400));
        let empty = OutboxRecord::new(b"\x02", "empty.db", 9, None, Vec::new());
        let text = outboxes_text(&[empty, shop]);
        assert_eq!(text.matches("not reported since 1970-01-02T00:00:00Z").count(), 3, "two rows and a finding: {text}");
        assert!(text.contains("empty.db") && !text.contains("web-1"), "{text}");
    }
}
