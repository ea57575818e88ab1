//! `queues`: which there are, aging, pause and resume.

use std::time::Duration;

use queue_core::{Client, Error, broker::QueueStats, outcome::error_text};
use serde::Serialize;

use super::{
    args::QueuesCommand,
    exit::{Exit, Failure, note, tell},
    output::{print, print_json, table},
};

#[derive(Serialize)]
struct QueueRow {
    queue: String,
    paused: bool,
    workers: u64,
    lanes: u64,
    aging_ms: Option<u64>,
}

/// A queue that cannot be read, because another program wrote to one of its keys. The other queues are shown without it.
#[derive(Debug, Serialize)]
pub(super) struct Unreadable {
    queue: String,
    problem: String,
}

impl Unreadable {
    /// The error of a queue, if the other queues can be shown nevertheless.
    pub(super) fn from(queue: &str, error: Error) -> Result<Self, Failure> {
        match error {
            Error::WrongType { .. } => Ok(Unreadable { queue: queue.to_owned(), problem: error_text(&error) }),
            error => Err(error.into()),
        }
    }

    /// Tells of these queues at the end of a command, and fails if there are any.
    pub(super) fn tell(all: &[Unreadable]) -> Result<(), Failure> {
        for Unreadable { problem, .. } in all {
            tell(problem);
        }
        if all.is_empty() { Ok(()) } else { Err(Failure::silent(Exit::Sick)) }
    }
}

/// What can be told of some queues: the figures of each, and those that cannot be read.
pub(super) async fn figures(client: &Client, queues: Vec<String>) -> Result<(Vec<(String, QueueStats)>, Vec<Unreadable>), Failure> {
    let (mut figures, mut unreadable) = (Vec::new(), Vec::new());
    for queue in queues {
        match client.inspector().stats(&queue).await {
            Ok(stats) => figures.push((queue, stats)),
            Err(error) => unreadable.push(Unreadable::from(&queue, error)?),
        }
    }
    Ok((figures, unreadable))
}

pub(super) async fn queues(client: &Client, command: QueuesCommand) -> Result<(), Failure> {
    let inspector = client.inspector();
    match command {
        QueuesCommand::List(format) => {
            let (figures, unreadable) = self::figures(client, inspector.queues().await?).await?;
            let of_each = figures.into_iter();
            let rows: Vec<_> = of_each
                .map(|(queue, stats)| {
                    let aging_ms = stats.aging.map(|every| u64::try_from(every.as_millis()).unwrap_or(u64::MAX));
                    QueueRow { queue, paused: stats.paused, workers: stats.workers, lanes: stats.lanes, aging_ms }
                })
                .collect();
            if format.json {
                print_json(&rows)?;
                return Unreadable::tell(&unreadable);
            }
            if rows.is_empty() && unreadable.is_empty() {
                note(&none_yet(client));
                return Ok(());
            }
            let cells = rows.into_iter().map(|row| {
                let aging = row.aging_ms.map(|ms| told(Duration::from_millis(ms))).unwrap_or_default();
                [row.queue, row.workers.to_string(), row.lanes.to_string(), aging, if row.paused { "yes" } else { "" }.to_owned()]
            });
            print(&table(["queue", "#workers", "#lanes", "#aging", "paused"], cells))?;
            Unreadable::tell(&unreadable)
        }
        QueuesCommand::Pause { queues } => {
            for queue in known(client, queues).await? {
                inspector.pause(&queue).await?;
                print(&format!("{queue} is paused"))?;
            }
            Ok(())
        }
        QueuesCommand::Set { queue, aging } => {
            let known = known(client, vec![queue]).await?.remove(0);
            let what = match inspector.set_aging(&known, aging).await? {
                Some(every) => format!("a job of {known} that waits rises by one priority every {}", told(every)),
                None => format!("jobs of {known} that wait do not rise"),
            };
            Ok(print(&what)?)
        }
        QueuesCommand::Resume { queues } => {
            for queue in known(client, queues).await? {
                inspector.resume(&queue).await?;
                print(&format!("{queue} is served"))?;
            }
            Ok(())
        }
    }
}

fn told(every: Duration) -> String {
    humantime::format_duration(every).to_string()
}

/// One queue that must exist, or all.
pub(super) async fn chosen(client: &Client, queue: Option<&str>) -> Result<Vec<String>, Failure> {
    match queue {
        Some(queue) => known(client, vec![queue.to_owned()]).await,
        None => Ok(client.inspector().queues().await?),
    }
}

/// The same names, if all of them exist: nothing is done for some when one is misspelt.
async fn known(client: &Client, names: Vec<String>) -> Result<Vec<String>, Failure> {
    let queues = client.inspector().queues().await?;
    for name in &names {
        queue_core::address::check_name("queue", name)?;
        if queues.contains(name) {
            continue;
        }
        let way_out = match queue_core::__private::nearest(name, queues.iter().map(String::as_str)) {
            Some(near) => format!("did you mean `{near}`?"),
            None if queues.is_empty() => none_yet(client),
            None => format!("there are {}", queues.iter().map(|queue| format!("`{queue}`")).collect::<Vec<_>>().join(", ")),
        };
        return Err(Failure::new(Exit::NotFound, format!("there is no queue `{name}`: {way_out}")));
    }
    Ok(names)
}

fn none_yet(client: &Client) -> String {
    format!("nothing was ever enqueued at {}", client.info().location)
}
