//! The figures of SQLite, each beside a loop that was written by hand over the same tables in the
//! same run.

mod by_hand;

use std::path::Path;

use futures_util::{FutureExt, future::BoxFuture};
use queue_core::Client;

use self::by_hand::ByHand;
use super::{enqueue, latency, lateness, process};
use crate::{
    Error,
    frame::{Figure, Reading, Readings},
    stats::percentile,
    tasks::{hundred_bytes, noop},
    worker::jobs,
};

const JOBS: usize = 50_000;

pub(crate) fn figures() -> Vec<Figure> {
    let across = "From the call of `enqueue` to the start of the handler in another process, 500 jobs.";
    vec![
        beside_by_hand(
            "sqlite_process",
            "50,000 preloaded no-op jobs of 100 bytes, one worker process, concurrency 64; by hand 64 jobs in a transaction.",
            |hand| {
                hand.enqueue(JOBS, 500)?;
                hand.process(64)
            },
            |url| {
                async move {
                    Client::connect(&url).await?.enqueue_all(jobs(JOBS)).await?;
                    process::drain_all(&url, 64, JOBS).await
                }
                .boxed()
            },
        ),
        beside_by_hand(
            "sqlite_enqueue_all",
            "50,000 jobs in one call of `enqueue_all`; by hand 500 in a transaction, as many as a request has.",
            |hand| hand.enqueue(JOBS, 500),
            |url| async move { enqueue::all(&url, JOBS).await }.boxed(),
        ),
        beside_by_hand(
            "sqlite_enqueue_c50",
            "50 concurrent producers, each awaiting its own answers: 50,000 jobs; by hand 50 in a transaction.",
            |hand| hand.enqueue(JOBS, 50),
            |url| async move { enqueue::concurrently(&url, 50, JOBS).await }.boxed(),
        ),
        Figure::sqlite("sqlite_latency", across, |folder| across_processes(folder).boxed()),
        Figure::sqlite("sqlite_lateness", "As `lateness`, on SQLite.", |folder| {
            let url = url(&folder.join("queue.db"));
            async move { lateness::lateness(&url).await }.boxed()
        })
        .most_runs(1),
    ]
}

/// A figure with its hand-written counterpart before and after it, each on a file of its own.
fn beside_by_hand(
    name: &'static str,
    about: &'static str,
    by_hand: fn(&mut ByHand) -> rusqlite::Result<f64>,
    ours: fn(String) -> BoxFuture<'static, Result<f64, Error>>,
) -> Figure {
    Figure::sqlite(name, about, move |folder| {
        async move {
            let before = by_hand(&mut hand(&folder.join("before.db")).await?)?;
            let value = ours(url(&folder.join("queue.db"))).await?;
            let after = by_hand(&mut hand(&folder.join("after.db")).await?)?;
            let reading = Reading::new("", value, "jobs/s");
            Ok(vec![reading.beside(f64::midpoint(before, after), "a loop written by hand, before and after")])
        }
        .boxed()
    })
}

/// Lets the broker make its tables and a job, and takes them over.
async fn hand(file: &Path) -> Result<ByHand, Error> {
    let client = Client::connect(&url(file)).await?;
    client.enqueue(noop::job(hundred_bytes())).await?;
    drop(client);
    Ok(ByHand::open(file, "bench")?)
}

async fn across_processes(folder: &Path) -> Readings {
    let mut millis = latency::across(&url(&folder.join("queue.db"))).await?;
    Ok(vec![
        Reading::new("_p50", percentile(&mut millis, 50.0), "ms"),
        Reading::new("_p90", percentile(&mut millis, 90.0), "ms"),
        Reading::new("_p99", percentile(&mut millis, 99.0), "ms"),
        Reading::new("_p999", percentile(&mut millis, 99.9), "ms"),
    ])
}

pub(crate) fn url(file: &Path) -> String {
    format!("sqlite://{}", file.display())
}
