//! How long a job waits for its start while a worker is free.

use std::time::{Duration, Instant};

use futures_util::FutureExt;
use queue_core::Client;

use crate::{
    Error,
    children::WorkerProcess,
    frame::{Against, Bar, Figure, Reading, Readings},
    stats::percentile,
    tasks::{age, now_us, stamp},
    worker::Running,
};

pub(crate) fn figures() -> Vec<Figure> {
    vec![
        Figure::redis("latency", "From the call of `enqueue` to the start of the handler on an idle worker, 1,000 jobs.", |server| {
            let url = server.url();
            async move { idle(&url).await }.boxed()
        })
        .raw(1),
    ]
}

async fn idle(url: &str) -> Readings {
    let client = Client::connect(url).await?;
    let running = Running::start(&client, 10);
    let mut sent = Vec::new();
    for n in 0..1_100 {
        running.counter.want(1);
        sent.push(Instant::now());
        client.enqueue(stamp::job(n)).await?;
        running.counter.all(Duration::from_secs(10)).await?;
        tokio::time::sleep(Duration::from_millis(2)).await;
    }
    let starts = std::mem::take(&mut *running.starts.0.lock().expect("no holder panics"));
    running.stop().await;
    // The first hundred warm connections and caches up.
    let mut millis: Vec<f64> = starts.iter().skip(100).map(|(n, start)| (*start - sent[*n as usize]).as_secs_f64() * 1e3).collect();
    Ok(vec![
        Reading::new("_p50", percentile(&mut millis, 50.0), "ms").against(Against::RoundTrip).bar(Bar::RatioAtMost(4.0)),
        Reading::new("_p90", percentile(&mut millis, 90.0), "ms"),
        Reading::new("_p99", percentile(&mut millis, 99.0), "ms").bar(Bar::AtMost(2.0)),
        Reading::new("_p999", percentile(&mut millis, 99.9), "ms"),
    ])
}

/// The same to a worker in another process; sorted milliseconds.
pub(crate) async fn across(url: &str) -> Result<Vec<f64>, Error> {
    let client = Client::connect(url).await?;
    let mut process = WorkerProcess::ready(url, 10, "").await?;
    process.go().await?;
    let mut millis = Vec::new();
    for n in 0..600 {
        client.enqueue(age::job(now_us())).await?;
        // Behind the count of others, which it does not run, comes nothing else.
        let line = process.line().await?;
        if n >= 100 {
            millis.push(line.parse::<f64>()? / 1e3);
        }
        tokio::time::sleep(Duration::from_millis(2)).await;
    }
    process.kill().await?;
    Ok(millis)
}
