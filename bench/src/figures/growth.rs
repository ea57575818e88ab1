//! Whether more of everything makes it slower: waiting jobs, queues, bytes.

use std::time::{Duration, Instant};

use futures_util::FutureExt;
use queue_core::Client;

use super::{
    enqueue,
    process::{drain_all, process},
};
use crate::{
    Error,
    frame::{Against, Figure, Reading, Readings, When},
    server::Server,
    tasks::{fails, nothing},
    worker::{Running, jobs, jobs_of, patience},
};

/// What is pending in the small case that the others are compared with.
const FEW: usize = 10_000;

pub(crate) fn figures() -> Vec<Figure> {
    let pending =
        |name: &'static str, about: &'static str, n: usize| Figure::redis(name, about, move |server| pending(server, n).boxed()).raw(50);
    let scheduled = "`process` while a million jobs are scheduled for tomorrow, beside `process` without them in the same run; `_at_once` \
                     and without as for `growth`.";
    let failed = "`process` while 1,000 jobs are dead and 1,000 wait for a retry, beside `process` without them in the same run; and what a \
                  job costs the server beside them and without, at concurrency 256 and 10.";
    vec![
        pending(
            "growth_1m",
            "200,000 of a million pending jobs, beside 20 drains of 10 thousand in the same run; `_at_once` and without as for `growth`.",
            1_000_000,
        )
        .most_runs(3),
        pending(
            "growth",
            "200,000 of 10 million pending jobs, beside 20 drains of 10 thousand in the same run: `_at_once` right after they were \
             enqueued, while Redis may still move the hash of the jobs to a larger table, one bucket with each command on it; without, \
             once that has come to its end.",
            10_000_000,
        )
        .when(When::Long)
        .most_runs(3),
        Figure::redis("growth_scheduled", scheduled, |server| beside_scheduled(server).boxed()).most_runs(3),
        Figure::redis("growth_failed", failed, |server| beside_failed(server).boxed()),
        Figure::redis(
            "payloads",
            "`enqueue_all` and `process` with payloads of 0 bytes to 256 KiB, 64 MiB in all or 100,000 jobs.",
            |server| payloads(server).boxed(),
        )
        .most_runs(2),
    ]
}

async fn pending(server: &Server, n: usize) -> Readings {
    let url = server.url();
    let mut few = 0.0;
    for _ in 0..20 {
        enqueue::all(&url, FEW).await?;
        few += seconds(&url, FEW).await?;
    }
    let few = (20 * FEW) as f64 / few;
    let measured = 200_000;
    enqueue::all(&url, n).await?;
    let growing = measured as f64 / seconds(&url, measured).await?;
    server.end_growth()?;
    let rate = measured as f64 / seconds(&url, measured).await?;
    let fewer = "the same with 10 thousand pending";
    Ok(vec![
        Reading::new("", rate, "jobs/s").beside(few, fewer),
        Reading::new("_at_once", growing, "jobs/s").beside(few, fewer),
        Reading::new("_raw", rate, "jobs/s").against(Against::Raw),
        Reading::new("_10k", few, "jobs/s").against(Against::Raw),
    ])
}

async fn beside_scheduled(server: &Server) -> Readings {
    let (url, n) = (server.url(), 200_000);
    let usual = process(&url, 256, n).await?;
    server.flush()?;
    let client = Client::connect(&url).await?;
    client.enqueue_all(jobs(1_000_000).map(|job| job.delay(Duration::from_secs(24 * 3600)))).await?;
    let growing = process(&url, 256, n).await?;
    server.end_growth()?;
    let rate = process(&url, 256, n).await?;
    let without = "the same without them";
    Ok(vec![Reading::new("", rate, "jobs/s").beside(usual, without), Reading::new("_at_once", growing, "jobs/s").beside(usual, without)])
}

async fn beside_failed(server: &Server) -> Readings {
    let (url, n) = (server.url(), 200_000);
    let cost = async |concurrency: usize, n: usize| {
        let begun = server.cpu_us()?;
        let rate = process(&url, concurrency, n).await?;
        Ok::<_, Error>((rate, (server.cpu_us()? - begun) / n as f64))
    };
    let ((usual, us), (_, us_10)) = (cost(256, n).await?, cost(10, n / 4).await?);
    let client = Client::connect(&url).await?;
    client.enqueue_all((0..2_000).map(|i| fails::job(i % 2 == 0))).await?;
    drain_all(&url, 256, 2_000).await?;
    let ((rate, failed_us), (_, failed_us_10)) = (cost(256, n).await?, cost(10, n / 4).await?);
    let without = "the same without them";
    Ok(vec![
        Reading::new("", rate, "jobs/s").beside(usual, without),
        Reading::new("_server_us", failed_us, "us").beside(us, without),
        Reading::new("_server_us_c10", failed_us_10, "us").beside(us_10, without),
    ])
}

async fn payloads(server: &Server) -> Readings {
    let mut readings = Vec::new();
    for (label, bytes) in [("0", 0), ("1k", 1 << 10), ("16k", 16 << 10), ("256k", (256 << 10) - 64)] {
        server.flush()?;
        let n = ((64 << 20) / bytes.max(1)).min(100_000);
        let client = Client::connect(&server.url()).await?;
        // The first registers names.
        client.enqueue(nothing::job()).await?;
        let begun = Instant::now();
        if bytes == 0 {
            client.enqueue_all((1..n).map(|_| nothing::job())).await?;
        } else {
            client.enqueue_all(jobs_of(n - 1, "x".repeat(bytes))).await?;
        }
        readings.push(Reading::new(format!("_{label}_enqueue_all"), n as f64 / begun.elapsed().as_secs_f64(), "jobs/s"));
        readings.push(Reading::new(format!("_{label}_process"), drain_all(&server.url(), 64, n).await?, "jobs/s"));
    }
    Ok(readings)
}

/// How long the first so many of the jobs take that are there, from the start of the very first.
async fn seconds(url: &str, n: usize) -> Result<f64, Error> {
    let client = Client::connect(url).await?;
    let running = Running::start(&client, 256);
    running.counter.want(n);
    running.counter.all(patience()).await?;
    let seconds = running.counter.first().ok_or("no job ran")?.elapsed().as_secs_f64();
    running.stop().await;
    Ok(seconds)
}
