//! `status`: depth and counters of the queues.

use std::collections::BTreeMap;

use queue_core::{
    Client, Error, HistorySpan,
    broker::{JobState, QueueStats},
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
    /// Print the history of the last hour, or of a time such as `24h`: by minute up to two hours, by hour beyond
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
    let mut rows = Vec::new();
    for (queue, stats) in figures {
        let waiting = client.inspector().waiting(&queue).await?;
        rows.push(QueueStatus { queue, stats, waiting });
    }
    if args.format.json {
        let (durability, condition) = (durability.name(), condition.into());
        let (broker, location) = (info.kind, info.location);
        let status = Status { broker, location, durability, condition, queues: rows, unreadable, unreadable_jobs, topic_warnings };
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
    for Problem { queue, problem, .. } in &topic_warnings {
        let queue = queue.as_ref().map(|queue| format!("{queue}: ")).unwrap_or_default();
        text.push_str(&format!("\n{queue}{problem}"));
    }
    print(&text)?;
    Unreadable::tell(&unreadable)
}

fn depths(rows: &[QueueStatus]) -> String {
    table(
        [
            "queue",
            "#scheduled",
            "#ready",
            "oldest",
            "#active",
            "#retry",
            "#parked",
            "#held",
            "#done",
            "#dead",
            "#cancelled",
            "#expired",
            "#workers",
            "#lanes",
            "paused",
        ],
        rows.iter().map(QueueStatus::row),
    )
}
