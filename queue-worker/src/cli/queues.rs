//! `queues`: which there are, pause and resume.

use queue_core::Client;
use serde::Serialize;

use super::{
    args::QueuesCommand,
    exit::{Exit, Failure, note},
    output::{print, print_json, table},
};

#[derive(Serialize)]
struct QueueRow {
    queue: String,
    paused: bool,
    lanes: u64,
}

pub(super) async fn queues(client: &Client, command: QueuesCommand) -> Result<(), Failure> {
    let inspector = client.inspector();
    match command {
        QueuesCommand::List(format) => {
            let mut rows = Vec::new();
            for queue in inspector.queues().await? {
                let stats = inspector.stats(&queue).await?;
                rows.push(QueueRow { queue, paused: stats.paused, lanes: stats.workers });
            }
            if format.json {
                return Ok(print_json(&rows)?);
            }
            if rows.is_empty() {
                note(&none_yet(client));
                return Ok(());
            }
            let cells = rows.into_iter().map(|row| [row.queue, row.lanes.to_string(), if row.paused { "yes" } else { "" }.to_owned()]);
            Ok(print(&table(["queue", "#lanes", "paused"], cells))?)
        }
        QueuesCommand::Pause { queues } => {
            for queue in known(client, queues).await? {
                inspector.pause(&queue).await?;
                print(&format!("{queue} is paused"))?;
            }
            Ok(())
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
