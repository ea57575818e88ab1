//! What watching costs a worker, and how much of what happens reaches a watcher.

use std::{
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    time::{Duration, Instant},
};

use futures_util::FutureExt;
use queue_core::{Client, inspect::Watched};

use super::process::drain_all;
use crate::{
    Error,
    frame::{Figure, Reading, Readings},
    server::Server,
    tasks::{hundred_bytes, noop},
    worker::jobs,
};

pub(crate) fn figures() -> Vec<Figure> {
    let about = "`process` while a program watches all of its transitions, beside `process` without a watcher, in the same run; how many transitions a second reach the \
                 watcher, and which part of all.";
    vec![
        Figure::redis("watch", about, |server| {
            let url = server.url();
            watch(server, url).boxed()
        }),
        Figure::sqlite("sqlite_watch", "As `watch`, on SQLite, with 20,000 jobs.", |folder| {
            let of = |name: &str| super::sqlite::url(&folder.join(name));
            let (alone, watched) = (of("alone.db"), of("watched.db"));
            async move { beside(&alone, &watched, 20_000).await }.boxed()
        }),
    ]
}

async fn watch(server: &Server, url: String) -> Readings {
    let n = 200_000;
    Client::connect(&url).await?.enqueue_all(jobs(n)).await?;
    let alone = drain_all(&url, 256, n).await?;
    server.flush()?;
    readings(&url, n, alone).await
}

async fn beside(alone: &str, watched: &str, n: usize) -> Readings {
    Client::connect(alone).await?.enqueue_all(jobs(n)).await?;
    let alone = drain_all(alone, 256, n).await?;
    readings(watched, n, alone).await
}

/// The jobs wait before the watcher comes: each has two transitions, a start and an end.
async fn readings(url: &str, n: usize, alone: f64) -> Readings {
    let client = Client::connect(url).await?;
    client.enqueue_all(jobs(n)).await?;
    let over = Arc::new(AtomicBool::new(false));
    let watcher = tokio::spawn(count(Client::connect(url).await?, over.clone()));
    // It has begun by then.
    tokio::time::sleep(Duration::from_millis(300)).await;
    let begun = Instant::now();
    let rate = drain_all(url, 256, n).await?;
    let took = begun.elapsed().as_secs_f64();
    over.store(true, Ordering::Relaxed);
    let seen = watcher.await??;
    if seen == 0 {
        return Err("no transition has reached the watcher".into());
    }
    client.enqueue(noop::job(hundred_bytes())).await?;
    Ok(vec![
        Reading::new("_process", rate, "jobs/s").beside(alone, "`process` without a watcher in the same run"),
        Reading::new("_seen", seen as f64 / took, "transitions/s"),
        Reading::new("_part", 100.0 * seen as f64 / (2 * n) as f64, "%"),
    ])
}

/// How many transitions it sees until this is over.
async fn count(client: Client, over: Arc<AtomicBool>) -> Result<usize, Error> {
    let (mut watch, mut seen) = (client.watch("queue=bench".parse()?)?, 0);
    loop {
        match watch.next_within(Duration::from_millis(300)).await? {
            Some(Watched::Transition(_)) => seen += 1,
            Some(_) => {}
            None if over.load(Ordering::Relaxed) => return Ok(seen),
            None => {}
        }
    }
}
