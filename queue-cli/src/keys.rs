//! `keys`: unique keys, and the jobs that hold them.

use std::time::{Duration, UNIX_EPOCH};

use clap::Subcommand;
use queue_core::{Client, inspect::UniqueKey};
use serde::Serialize;
use serde_json::json;

use super::{
    address::Address,
    again::QueueArgs,
    args::Format,
    exit::{Failure, note},
    output::{print, print_json, utc},
    queues::{self, Unreadable},
    table::{self, Column::Field, Of},
};

#[derive(Debug, Subcommand)]
pub(super) enum KeysCommand {
    /// List the held keys and the jobs that hold them
    #[command(after_help = "Examples:
  {bin} keys list
  {bin} keys list --queue orders
  {bin} keys list --queue orders --json | jq -r '.queues[].keys[].job'")]
    List {
        #[command(flatten)]
        of: QueueArgs,
        /// Most keys of a queue to print
        #[arg(long, value_name = "N", default_value_t = 100)]
        limit: usize,
        /// Continue behind a page: the `next` of its queue
        #[arg(long, value_name = "NEXT", requires = "queue")]
        after: Option<String>,
    },
    /// Release a key from the job that holds it, so that another job with this key can be enqueued;
    /// the job continues
    #[command(after_help = "Examples:
  {bin} keys release orders/4f1d0c2e9b7a63d5801fb2c4e6a79d35    as `jobs show` prints it
  {bin} jobs list 'unique=shop-7'                               which jobs have a key")]
    Release {
        /// The queue and the key, which has 32 hexadecimal digits
        #[arg(value_name = "QUEUE/KEY")]
        key: Address<UniqueKey>,
        #[command(flatten)]
        format: Format,
    },
}

pub(super) async fn keys(client: &Client, command: KeysCommand) -> Result<(), Failure> {
    match command {
        KeysCommand::List { of, limit, after } => list(client, of.queue.as_deref(), limit, after.as_deref(), &of.format).await,
        KeysCommand::Release { key: Address { queue, name: key }, format } => release(client, &queue, key, &format).await,
    }
}

/// Held keys of a queue, as JSON.
#[derive(Serialize)]
struct Listed {
    queue: String,
    keys: Vec<Row>,
    next: Option<String>,
}

#[derive(Serialize)]
struct Row {
    key: String,
    job: String,
    until: Option<String>,
    next: Option<String>,
}

/// Reads page by page up to the limit.
async fn read(client: &Client, queue: &str, limit: usize, after: Option<&str>) -> queue_core::Result<Listed> {
    let mut listed = Listed { queue: queue.to_owned(), keys: Vec::new(), next: after.map(str::to_owned) };
    loop {
        let page = client.inspector().keys(queue, listed.next.as_deref(), limit.saturating_sub(listed.keys.len())).await?;
        listed.keys.extend(page.keys.into_iter().map(|(key, holder)| Row {
            key: key.to_string(),
            job: format!("{queue}/{}", holder.id),
            until: holder.until_ms.and_then(|ms| utc(UNIX_EPOCH + Duration::from_millis(u64::try_from(ms).ok()?))),
            next: holder.next.map(|next| format!("{queue}/{next}")),
        }));
        listed.next = page.next;
        if listed.next.is_none() || listed.keys.len() >= limit {
            return Ok(listed);
        }
    }
}

async fn list(client: &Client, queue: Option<&str>, limit: usize, after: Option<&str>, format: &Format) -> Result<(), Failure> {
    let chosen = queues::selected_queues(client, queue).await?;
    let (of_each, unreadable) = queues::for_each_queue(chosen, async |queue| read(client, queue, limit, after).await).await?;
    let listed: Vec<Listed> = of_each.into_iter().map(|(_, listed)| listed).collect();
    if format.json {
        print_json(&json!({ "queues": listed }))?;
        return Unreadable::report(&unreadable);
    }
    let rows: Vec<_> =
        listed.iter().flat_map(|Listed { queue, keys, .. }| keys.iter().map(|record| Of { queue: queue.clone(), record })).collect();
    table::list(format, "keys", &rows, &[Field("queue"), Field("key"), Field("job"), Field("until"), Field("next")], "no job holds a key")?;
    for Listed { queue, next, .. } in &listed {
        if let Some(next) = next {
            note(&format!("there are more: `keys list --queue {queue} --after {next}`"));
        }
    }
    Unreadable::report(&unreadable)
}

/// Prints the previous holder and the present holder.
async fn release(client: &Client, queue: &str, key: UniqueKey, format: &Format) -> Result<(), Failure> {
    let held = client.inspector().release_key(queue, key).await?;
    let job = |id: &queue_core::JobId| format!("{queue}/{id}");
    if format.json {
        let (holder, next) = (held.as_ref().map(|held| job(&held.id)), held.as_ref().and_then(|held| held.next.as_ref()).map(job));
        return Ok(print_json(&json!({ "key": key.to_string(), "was_held_by": holder, "is_held_by": next }))?);
    }
    match held {
        None => note("no job holds this key"),
        Some(held) => {
            print(&format!("{} no longer holds the key", job(&held.id)))?;
            if let Some(next) = &held.next {
                print(&format!("{} holds it now, and may start", job(next)))?;
            }
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use queue_core::{__private::map_from_json, RawJob};

    use super::*;
    use crate::output::with_captured_output;

    #[tokio::test]
    async fn the_keys_of_all_queues_are_listed_with_their_holders() {
        let client = Client::connect("sqlite://:memory:").await.unwrap();
        let mut jobs = Vec::new();
        for queue in ["mail", "orders"] {
            let job = RawJob::new("send", map_from_json("send", "args", "{}").unwrap()).queue(queue).unique_key("one");
            jobs.push(client.enqueue_raw(job).await.unwrap().0.to_string());
        }
        let format = Format { json: false };
        let (done, captured) = with_captured_output(list(&client, None, 100, None, &format)).await;
        done.unwrap();
        assert!(jobs.iter().all(|job| captured.answer.contains(job)), "{captured:?}");
        let (done, captured) = with_captured_output(list(&client, Some("mail"), 100, None, &format)).await;
        done.unwrap();
        assert_eq!((captured.answer.lines().count(), captured.answer.contains(&jobs[0])), (2, true), "{captured:?}");
    }
}
