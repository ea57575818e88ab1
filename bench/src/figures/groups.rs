//! What groups cost: how fast one worker drains 200,000 jobs of 100 to 100,000 groups, beside the
//! same jobs without groups in the same run. And after how many starts the jobs of small groups are
//! done.

use std::time::Instant;

use futures_util::FutureExt;
use queue_core::{Client, Job, inspect::RuleOf};

use super::{
    memory::bytes_each,
    process::{drain_all, process},
    sqlite::url,
};
use crate::{
    Error,
    frame::{Figure, Reading, Readings},
    server::Server,
    tasks::{grouped, grouped_stamp, hundred_bytes},
    worker::{Running, drain, jobs_of},
};

pub(crate) fn figures() -> Vec<Figure> {
    vec![
        Figure::redis("groups_100", "`process` where the jobs are of 100 groups, beside `process` in the same run.", |server| {
            drained(server, 100).boxed()
        }),
        Figure::redis("groups_1k", "`process` where the jobs are of 1,000 groups, beside `process` in the same run.", |server| {
            drained(server, 1_000).boxed()
        }),
        Figure::redis("groups_10k", "`process` where the jobs are of 10,000 groups, beside `process` in the same run.", |server| {
            drained(server, 10_000).boxed()
        }),
        Figure::redis("groups_100k", "`process` where the jobs are of 100,000 groups, beside `process` in the same run.", |server| {
            drained(server, 100_000).boxed()
        }),
        Figure::redis(
            "groups_fair",
            "With a group of 100,000 jobs and 100 groups of 10, enqueued after it: how many jobs have started when the last of the small groups \
             does. 1,100 is the bound that is asked for.",
            |server| {
                let url = server.url();
                async move { fair(&url).await }.boxed()
            },
        ),
        Figure::redis(
            "groups_memory",
            "Bytes of redis-server per waiting job of 1,000 groups beyond its payload of 100 bytes, 200,000 of them, beside `memory`.",
            |server| memory(server).boxed(),
        )
        .most_runs(3),
        Figure::redis(
            "groups_capped",
            "The longest script while a worker of concurrency 64 drains 10,000 jobs of a queue with 100,000 groups, of each of which one job may run. \
             5 ms is the bound that is asked for.",
            |server| capped(server).boxed(),
        )
        .by_cpu()
        .most_runs(3),
        on_sqlite("sqlite_groups_100", "100", 100),
        on_sqlite("sqlite_groups_1k", "1,000", 1_000),
        on_sqlite("sqlite_groups_10k", "10,000", 10_000),
        on_sqlite("sqlite_groups_100k", "100,000", 100_000),
        Figure::sqlite("sqlite_groups_fair", "As `groups_fair`, on SQLite.", |folder| {
            let url = url(&folder.join("queue.db"));
            async move { fair(&url).await }.boxed()
        }),
    ]
}

const JOBS: usize = 200_000;

/// `n` jobs: the first of each of `groups` groups, then the second of each.
fn jobs(groups: usize, n: usize) -> impl Iterator<Item = Job<grouped>> + Send + use<> {
    (0..n).map(move |number| grouped::job((number % groups) as u64, hundred_bytes()))
}

async fn drained(server: &Server, groups: usize) -> Readings {
    let mut readings = Vec::new();
    for concurrency in [64, 256] {
        server.flush()?;
        let usual = process(&server.url(), concurrency, JOBS).await?;
        server.flush()?;
        let rate = drain_grouped(&server.url(), groups, concurrency, JOBS).await?;
        let name = if concurrency == 64 { "c64" } else { "c256" };
        readings.push(Reading::new(name, rate, "jobs/s").beside(usual, "`process` in the same run"));
    }
    Ok(readings)
}

/// Jobs per second of one worker in this process.
async fn drain_grouped(url: &str, groups: usize, concurrency: usize, n: usize) -> Result<f64, Error> {
    Client::connect(url).await?.enqueue_all(jobs(groups, n)).await?;
    drain_all(url, concurrency, n).await
}

/// The bytes of a waiting job beyond its payload, of a group and of none.
async fn memory(server: &Server) -> Readings {
    server.flush()?;
    let usual = bytes_each(server, jobs_of(JOBS, hundred_bytes())).await? - 100.0;
    server.flush()?;
    let value = bytes_each(server, jobs(1_000, JOBS)).await? - 100.0;
    Ok(vec![Reading::new("", value, "bytes").beside(usual, "jobs without groups in the same run")])
}

const CAPPED: usize = 100_000;

async fn capped(server: &Server) -> Readings {
    let client = Client::connect(&server.url()).await?;
    client.inspector().set_group_rule("bench", &RuleOf::Others, |rule| rule.cap = Some(1)).await?;
    client.enqueue_all(jobs(CAPPED, 2 * CAPPED)).await?;
    server.watch_slow()?;
    drain_all(&server.url(), 64, 10_000).await?;
    Ok(vec![server.longest_script()?])
}

fn on_sqlite(name: &'static str, number: &str, groups: usize) -> Figure {
    const JOBS: usize = 50_000;
    let about = format!("`sqlite_process` where the jobs are of {number} groups, beside the same jobs without groups.");
    Figure::sqlite(name, about, move |folder| {
        let (usual, grouped) = (url(&folder.join("usual.db")), url(&folder.join("grouped.db")));
        async move {
            let usual = process(&usual, 64, JOBS).await?;
            let rate = drain_grouped(&grouped, groups, 64, JOBS.max(groups)).await?;
            Ok(vec![Reading::new("", rate, "jobs/s").beside(usual, "jobs without groups in the same run")])
        }
        .boxed()
    })
}

/// The jobs of the small groups.
const SMALL: usize = 1_000;

/// How many starts the figure `groups_fair` looks at.
const LOOKED: usize = 5_000;

async fn fair(url: &str) -> Readings {
    let client = Client::connect(url).await?;
    client.enqueue_all((0..100_000).map(|_| grouped_stamp::job(0))).await?;
    client.enqueue_all((0..SMALL).map(|number| grouped_stamp::job(1 + (number % 100) as u64))).await?;
    let begun = Instant::now();
    let running = Running::start(&client, 1);
    running.counter.want(LOOKED);
    drain(&running, begun, LOOKED).await?;
    let starts = std::mem::take(&mut *running.starts.0.lock().expect("no holder panics"));
    running.stop().await;
    let small: Vec<usize> = starts.iter().enumerate().filter(|(_, (group, _))| *group > 0).map(|(at, _)| at + 1).collect();
    match small.last() {
        Some(last) if small.len() == SMALL => Ok(vec![Reading::new("", *last as f64, "jobs")]),
        _ => Err(format!("only {} of {SMALL} jobs of small groups were among the first {LOOKED}", small.len()).into()),
    }
}
