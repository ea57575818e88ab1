//! `keys`: unique keys, and the jobs that hold them.

use std::str::FromStr;

use clap::Subcommand;
use queue_core::{Client, Error, UniqueKey, address::check_queue};
use serde_json::json;

use super::{
    args::Format,
    exit::{Failure, note},
    output::{print, print_json},
};

#[derive(Debug, Subcommand)]
pub(super) enum KeysCommand {
    /// Release a key from the job that holds it, so that another job with this key can be enqueued; the job continues
    #[command(after_help = "Examples:
  {bin} keys release orders/4f1d0c2e9b7a63d5801fb2c4e6a79d35    as `jobs show` prints it
  {bin} jobs list 'unique=shop-7'                               which jobs have a key")]
    Release {
        /// The queue and the key, which has 32 hexadecimal digits
        #[arg(value_name = "QUEUE/KEY")]
        key: Named,
        #[command(flatten)]
        format: Format,
    },
}

/// `orders/4f1d0c2e9b7a63d5801fb2c4e6a79d35`.
#[derive(Clone, Debug)]
pub(super) struct Named {
    queue: String,
    key: UniqueKey,
}

impl FromStr for Named {
    type Err = Error;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let (queue, key) = text.split_once('/').unwrap_or(("", text));
        let key = key.parse()?;
        check_queue(queue)?;
        Ok(Named { queue: queue.to_owned(), key })
    }
}

pub(super) async fn keys(client: &Client, command: KeysCommand) -> Result<(), Failure> {
    match command {
        KeysCommand::Release { key: Named { queue, key }, format } => release(client, &queue, key, &format).await,
    }
}

/// Prints who held it, and who holds it now.
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
