//! The four designs that this project grew out of, as people run them, for comparing with.
//!
//! | | design | file |
//! |---|---|---|
//! | a | a list whose pop, a script, keeps a backup of what it gave away | `list.rs` |
//! | b | RPOPLPUSH to a list of what is processed, and a monitor of that list | `rpoplpush.rs` |
//! | c | a delay queue of sorted sets and lists that is looked at once a second | `delay_queue.rs` |
//! | d | a stream with a consumer group | `streams.rs` |
//!
//! Each is as its users know it, with its gaps, and as fast as it can be without becoming another:
//! one connection that carries the commands of all tasks, scripts called by their hash, as many
//! tasks as jobs may run at once. Where a design polls for new work without saying how often, it
//! does so every ten milliseconds. What was taken and not finished is given to others after 30
//! seconds, which is how long a lease of ours lasts.

mod delay_queue;
mod list;
mod rpoplpush;
mod streams;

pub(crate) use streams::Streams;

use std::time::Duration;

use queue_contender::Error;
use redis::aio::MultiplexedConnection;
use serde::{Deserialize, Serialize};

/// The designs by name, in the order of the table.
pub(crate) const NAMES: [&str; 4] = ["list", "rpoplpush", "delay_queue", "streams"];

/// Carries out one command of the bench with a design.
pub(crate) async fn run(name: &str, arguments: &[String]) -> Result<(), Error> {
    match name {
        "list" => queue_contender::run::<list::List>(arguments).await,
        "rpoplpush" => queue_contender::run::<rpoplpush::RpopLpush>(arguments).await,
        "delay_queue" => queue_contender::run::<delay_queue::DelayQueue>(arguments).await,
        "streams" => queue_contender::run::<streams::Streams>(arguments).await,
        other => Err(format!("there is no design {other}").into()),
    }
}

/// After this time what was taken and not finished goes to others.
const VISIBILITY: Duration = Duration::from_secs(30);
/// Between two looks at an empty queue, where the design does not say.
const IDLE: Duration = Duration::from_millis(10);
/// Messages in one command, when many are enqueued.
const CHUNK: usize = 500;

async fn connect(url: &str) -> Result<MultiplexedConnection, Error> {
    let config = redis::AsyncConnectionConfig::new().set_response_timeout(None);
    Ok(redis::Client::open(url)?.get_multiplexed_async_connection_with_config(&config).await?)
}

/// What lies in the lists of the first two designs.
#[derive(Debug, Serialize, Deserialize)]
struct Message {
    id: String,
    body: String,
}

impl Message {
    fn encode(body: String) -> Result<String, Error> {
        Ok(serde_json::to_string(&Message { id: id(), body })?)
    }
}

/// As long as a UUID.
fn id() -> String {
    format!("{:032x}", fastrand::u128(..))
}
