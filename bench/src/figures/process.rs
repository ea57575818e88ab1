//! How fast jobs are run.

use std::{
    path::Path,
    process::Command,
    time::{Duration, Instant},
};

use futures_util::FutureExt;
use queue_core::Client;
use queue_tests::folder::on_disk;

use super::enqueue;
use crate::{
    Error,
    children::WorkerProcess,
    frame::{Figure, Reading, Readings},
    server::Server,
    worker::{Running, drain, jobs, patience},
};

pub(crate) fn figures() -> Vec<Figure> {
    let at = |name: &'static str, about: &'static str, concurrency: usize, n: usize| {
        Figure::redis(name, about, move |server| {
            let url = server.url();
            async move { Ok(vec![Reading::rate(process(&url, concurrency, n).await?)]) }.boxed()
        })
        .raw(50)
    };
    let after_kill_about = "From the kill of one of two worker processes to the end of the last of 200,000 jobs: the lease of 30 s runs out, a reclaimer looks twice.";
    vec![
        at("process", "200,000 preloaded no-op jobs of 100 bytes, one worker process, concurrency 256.", 256, 200_000),
        at("process_c64", "The same with concurrency 64, the default.", 64, 200_000),
        at("process_c10", "The same with 100,000 jobs and concurrency 10.", 10, 100_000),
        at("process_c1", "The same with 20,000 jobs, one after the other.", 1, 20_000),
        Figure::program(
            "persisted",
            "`enqueue_c50` and `process_c64` with `appendonly yes`, on a disk: with `appendfsync everysec`, the default of Redis, and with \
             `always`; beside the same on a server that persists nothing in the same run.",
            |program| persisted(program).boxed(),
        ),
        Figure::redis("retention", "`process` with every job kept for an hour, beside `process` in the same run.", |server| {
            retention(server).boxed()
        }),
        Figure::redis(
            "end_to_end",
            "200,000 jobs from 50 concurrent producers, and a worker of concurrency 256 at the same time.",
            |server| end_to_end(server).boxed(),
        )
        .raw(50),
        Figure::redis("after_kill", after_kill_about, |server| after_kill(server).boxed()).most_runs(1),
    ]
}

/// Jobs per second of one worker in this process.
pub(crate) async fn process(url: &str, concurrency: usize, n: usize) -> Result<f64, Error> {
    Client::connect(url).await?.enqueue_all(jobs(n)).await?;
    drain_all(url, concurrency, n).await
}

/// Jobs per second of one worker in this process that finds them waiting.
pub(crate) async fn drain_all(url: &str, concurrency: usize, n: usize) -> Result<f64, Error> {
    drain_queues(url, concurrency, n, &[]).await
}

/// The same in these queues.
pub(crate) async fn drain_queues(url: &str, concurrency: usize, n: usize, queues: &[String]) -> Result<f64, Error> {
    let client = Client::connect(url).await?;
    let begun = Instant::now();
    let running = Running::serving(&client, concurrency, queues);
    running.counter.want(n);
    let rate = drain(&running, begun, n).await?;
    running.stop().await;
    Ok(rate)
}

async fn persisted(program: &Path) -> Readings {
    let mut readings = Vec::new();
    let mut usual = None;
    for fsync in ["", "everysec", "always"] {
        let server = Server::run(Command::new(program), on_disk())?;
        if !fsync.is_empty() {
            server.append(fsync)?;
        }
        let enqueued = enqueue::concurrently(&server.url(), 50, 200_000).await?;
        // It finds the jobs of the producers, and one with which they began.
        let processed = drain_all(&server.url(), 64, 200_001).await?;
        let (enqueued_in_memory, processed_in_memory) = *usual.get_or_insert((enqueued, processed));
        if !fsync.is_empty() {
            let beside = |name: &str, rate, usual| {
                Reading::new(format!("_{fsync}_{name}"), rate, "jobs/s").beside(usual, "a server that persists nothing in the same run")
            };
            readings.extend([beside("enqueue_c50", enqueued, enqueued_in_memory), beside("process_c64", processed, processed_in_memory)]);
        }
    }
    Ok(readings)
}

async fn retention(server: &Server) -> Readings {
    let n = 200_000;
    let usual = process(&server.url(), 256, n).await?;
    server.flush()?;
    let client = Client::connect(&server.url()).await?;
    client.enqueue_all(jobs(n)).await?;
    let begun = Instant::now();
    let running = Running::with(&client, 256, |worker| worker.retention(Duration::from_secs(3600)));
    running.counter.want(n);
    let kept = drain(&running, begun, n).await?;
    running.stop().await;
    Ok(vec![Reading::new("", kept, "jobs/s").beside(usual, "`process` in the same run")])
}

async fn end_to_end(server: &Server) -> Readings {
    let n = 200_000;
    let client = Client::connect(&server.url()).await?;
    let running = Running::start(&client, 256);
    running.counter.want(n);
    let begun = Instant::now();
    enqueue::produce(&client, 50, n).await?;
    let rate = drain(&running, begun, n).await?;
    running.stop().await;
    Ok(vec![Reading::rate(rate)])
}

async fn after_kill(server: &Server) -> Readings {
    let n = 200_000;
    let client = Client::connect(&server.url()).await?;
    client.enqueue_all(jobs(n)).await?;
    let mut killed = WorkerProcess::ready(&server.url(), 256, "").await?;
    let mut other = WorkerProcess::ready(&server.url(), 256, "").await?;
    killed.go().await?;
    other.go().await?;
    // It has jobs in its hands by now.
    killed.line().await?;
    killed.kill().await?;
    let begun = Instant::now();
    let inspector = client.inspector();
    while inspector.stats("bench").await?.jobs() > 0 {
        if begun.elapsed() > patience() {
            return Err("not all jobs had run in time after the kill".into());
        }
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
    Ok(vec![Reading::new("", begun.elapsed().as_secs_f64(), "s")])
}
