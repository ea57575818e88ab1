//! `status`: depth and counters of the queues.

use std::collections::BTreeMap;

use queue_core::{
    Client, Error,
    broker::{JobState, OutboxRecord, QueueStats},
    inspect::HistorySpan,
};
use serde::Serialize;

use super::{
    again::{Again, QueueArgs},
    condition,
    doctor::{Problem, topics},
    exit::Failure,
    history,
    output::{coarse, print, print_json, table},
    parked::Parked,
    pauses,
    queues::{self, Unreadable},
};

#[derive(Serialize)]
struct Status {
    broker: &'static str,
    location: String,
    /// What acknowledged jobs survive, at least.
    durability: &'static str,
    #[serde(flatten)]
    condition: condition::Shown,
    queues: Vec<QueueStatus>,
    /// Those that cannot be read.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    unreadable: Vec<Unreadable>,
    /// Parked jobs that releases could not read.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    unreadable_jobs: Vec<Parked>,
    /// As relays have reported them last.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    outboxes: Vec<OutboxRecord>,
    /// What a person should know of topics, as `doctor` says it.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    topic_warnings: Vec<Problem>,
}

#[derive(Serialize)]
pub(super) struct QueueStatus {
    queue: String,
    #[serde(flatten)]
    stats: QueueStats,
    /// How many jobs wait for what, at most.
    waiting: BTreeMap<&'static str, u64>,
}

impl QueueStatus {
    fn row(&self) -> [String; 15] {
        let [a, b, c, d, e, f, g, h, i, j] = JobState::ALL.map(|state| match self.stats.count(state) {
            0 => "-".to_owned(),
            jobs => jobs.to_string(),
        });
        let paused = pauses::told(self.stats.pause.as_ref(), 40);
        let oldest = self.stats.oldest.map_or_else(|| "-".to_owned(), coarse);
        [self.queue.clone(), a, b, oldest, c, d, e, f, g, h, i, j, self.stats.workers.to_string(), self.stats.lanes.to_string(), paused]
    }
}

#[derive(Debug, clap::Args)]
pub(super) struct StatusArgs {
    #[command(flatten)]
    of: QueueArgs,
    /// Print the history of the last hour, or of a time such as `24h`: by minute up to two hours,
    /// by hour beyond
    #[arg(long, value_name = "TIME", num_args = 0..=1, require_equals = true, default_missing_value = "1h", value_parser = history::span)]
    history: Option<HistorySpan>,
    #[command(flatten)]
    again: Again,
}

pub(super) async fn status(client: &Client, args: &StatusArgs) -> Result<(), Failure> {
    let of = &args.of;
    match args.history {
        Some(span) => args.again.print(async || history::history(client, of.queue.as_deref(), span, of.format.json).await).await,
        None => args.again.print(async || once(client, of).await).await,
    }
}

async fn once(client: &Client, args: &QueueArgs) -> Result<(), Failure> {
    let info = client.info();
    let durability = client.inspector().durability().await?;
    let condition = client.inspector().condition().await?;
    let (figures, unreadable) = queues::figures(client, queues::chosen(client, args.queue.as_deref()).await?).await?;
    let mut unreadable_jobs = Vec::new();
    for (queue, stats) in &figures {
        let parked = Parked::of(&client.inspector(), queue, stats).await?;
        unreadable_jobs.extend(parked.into_iter().filter(Parked::is_unreadable));
    }
    let mut topic_warnings = Vec::new();
    if args.queue.is_none() {
        match topics::advise(&client.inspector(), &mut topic_warnings).await {
            // `doctor` tells of that.
            Err(Error::WrongType { .. }) => {}
            advised => advised?,
        }
    }
    // Several queues may have reports of one.
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
        return Unreadable::tell(&status.unreadable);
    }
    let mut text = format!("{} {}\n{durability}: {}\n", info.kind, info.location, durability.meaning());
    text.push_str(&condition::text(&condition));
    if rows.is_empty() && unreadable.is_empty() {
        text.push_str("there are no queues: no job was ever enqueued, and no worker has run");
    } else {
        text.push_str(&depths(&rows));
    }
    for row in &rows {
        // The others have a column.
        let told = |reason: &str| !["not_due", "retry", "key_held", "behind"].contains(&reason);
        let waiting = row.waiting.iter().filter(|(reason, _)| told(reason));
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
    print(&text)?;
    Unreadable::tell(&unreadable)
}

/// A line of each queue of each outbox, and what is wrong with it.
fn outboxes_text(outboxes: &[OutboxRecord]) -> String {
    let mut rows = Vec::new();
    for outbox in outboxes {
        let relay = |holder: &Option<String>| match outbox.is_stale() {
            true => format!("not reported since {}", humantime::format_rfc3339_seconds(outbox.reported_at)),
            false => holder.clone().unwrap_or_else(|| "-".to_owned()),
        };
        if outbox.queues.is_empty() {
            let [zero, none] = ["0", "-"].map(str::to_owned);
            rows.push([outbox.database.clone(), none.clone(), zero.clone(), none, zero.clone(), zero, relay(&None)]);
        }
        rows.extend(outbox.queues.iter().map(|depth| {
            let [waiting, in_flight, refused] = [depth.waiting, depth.in_flight, depth.refused].map(|rows| rows.to_string());
            let oldest = depth.oldest.map_or_else(|| "-".to_owned(), coarse);
            [outbox.database.clone(), depth.queue.clone(), waiting, oldest, in_flight, refused, relay(&depth.holder)]
        }));
    }
    let mut text = table(&["outbox", "queue", "#waiting", "oldest", "#in flight", "#refused", "relay"], rows);
    for (problem, _) in outboxes.iter().flat_map(OutboxRecord::problems) {
        text.push_str(&format!("\n{problem}"));
    }
    text
}

fn depths(rows: &[QueueStatus]) -> String {
    let states = ["#scheduled", "#ready", "oldest", "#active", "#retry", "#parked", "#held", "#done", "#dead", "#cancelled", "#expired"];
    let headings = [&["queue"], &states[..], &["#workers", "#lanes", "paused"]].concat();
    table(&headings, rows.iter().map(QueueStatus::row))
}

#[cfg(test)]
mod tests {
    use std::time::{Duration, UNIX_EPOCH};

    use queue_core::inspect::OutboxDepth;

    use super::*;

    #[test]
    fn an_outbox_is_a_row_of_each_queue_and_says_since_when_nobody_has_reported_it() {
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
