//! How long a job waits for its start while a worker is free.

use std::time::{Duration, Instant};

use futures_util::FutureExt;
use queue_core::Client;

use super::enqueue;
use crate::{
    Error,
    children::{WorkerProcess, any_line},
    frame::{Against, Figure, Reading, Readings},
    server::Server,
    stats::percentile,
    tasks::{age, due, now_us, stamp},
    worker::{Running, drain},
};

pub(crate) fn figures() -> Vec<Figure> {
    vec![
        Figure::redis(
            "latency",
            "From the call of `enqueue` to the start of the handler on an idle worker of the same process, 1,000 jobs, 2 ms after the \
             last has run; the same with a worker in another process; and what an `LPUSH` through a bare socket takes every 2 ms.",
            |server| idle(server).boxed(),
        )
        .raw(1),
        Figure::redis(
            "latency_half_load",
            "The same for jobs that come evenly at half the rate of a short `end_to_end` in the same run, concurrency 256, for 3 s.",
            |server| half_load(server).boxed(),
        ),
        Figure::redis(
            "latency_crowd",
            "From the call of `enqueue` to the start of the handler with 3 and 200 idle worker processes on one queue, 100 jobs, 20 to 60 ms after \
             the last has begun.",
            |server| crowds(server).boxed(),
        )
        .most_runs(1),
    ]
}

async fn crowds(server: &Server) -> Readings {
    let mut readings = Vec::new();
    for (processes, p50, p99) in [(3, "_3_p50", "_3_p99"), (200, "_200_p50", "_200_p99")] {
        server.flush()?;
        let mut millis = crowd(&server.url(), processes).await?;
        readings.push(Reading::new(p50, percentile(&mut millis, 50.0), "ms"));
        readings.push(Reading::new(p99, percentile(&mut millis, 99.0), "ms"));
    }
    Ok(readings)
}

async fn crowd(url: &str, processes: usize) -> Result<Vec<f64>, Error> {
    let client = Client::connect(url).await?;
    let mut workers = Vec::new();
    while workers.len() < processes {
        let together = (processes - workers.len()).min(20);
        let started = futures_util::future::join_all((0..together).map(|_| WorkerProcess::ready(url, 10, "")));
        for process in started.await {
            let mut process = process?;
            process.go().await?;
            workers.push(process);
        }
    }
    // The first claims and polls of so many are over.
    tokio::time::sleep(Duration::from_secs(5)).await;
    let mut millis = Vec::new();
    for n in 0..120 {
        client.enqueue(age::job(now_us())).await?;
        // A job of this task makes no count, so nothing else is printed.
        let line = any_line(&mut workers).await?;
        if n >= 20 {
            millis.push(line.parse::<f64>()? / 1e3);
        }
        tokio::time::sleep(Duration::from_millis(20 + fastrand::u64(0..40))).await;
    }
    futures_util::future::try_join_all(workers.iter_mut().map(WorkerProcess::kill)).await?;
    Ok(millis)
}

async fn half_load(server: &Server) -> Readings {
    let client = Client::connect(&server.url()).await?;
    let running = Running::start(&client, 256);
    running.counter.want(50_000);
    let begun = Instant::now();
    enqueue::produce(&client, 50, 50_000).await?;
    let rate = drain(&running, begun, 50_000).await? / 2.0;
    // As many each millisecond as that rate means, each by a task of its own, whether or not those
    // before have been stored.
    let mut ticks = tokio::time::interval(Duration::from_millis(1));
    let begun = Instant::now();
    let mut sent = 0;
    let mut sending = tokio::task::JoinSet::new();
    while begun.elapsed() < Duration::from_secs(3) && sent < (rate * 3.0) as usize {
        ticks.tick().await;
        let wanted = ((begun.elapsed().as_secs_f64() * rate) as usize).min((rate * 3.0) as usize);
        for _ in sent..wanted {
            let client = client.clone();
            sending.spawn(async move { client.enqueue(due::job(now_us())).await.map(drop) });
        }
        sent = wanted;
    }
    for sent in sending.join_all().await {
        sent?;
    }
    let until = Instant::now() + Duration::from_secs(20);
    while running.lateness.len() < sent {
        if Instant::now() > until {
            return Err(format!("only {} of {sent} jobs ran", running.lateness.len()).into());
        }
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
    let mut millis: Vec<f64> = running.lateness.take_ms();
    running.stop().await;
    Ok(vec![
        Reading::new("_p50", percentile(&mut millis, 50.0), "ms"),
        Reading::new("_p90", percentile(&mut millis, 90.0), "ms"),
        Reading::new("_p99", percentile(&mut millis, 99.0), "ms"),
        Reading::new("_p999", percentile(&mut millis, 99.9), "ms"),
        Reading::new("_rate", rate, "jobs/s"),
    ])
}

/// Between two jobs, or two of what they are compared to: long enough for a core to fall asleep.
const REST: Duration = Duration::from_millis(2);

async fn idle(server: &Server) -> Readings {
    let round_trip = server.idle_round_trip(REST)?;
    let client = Client::connect(&server.url()).await?;
    let running = Running::start(&client, 10);
    let mut sent = Vec::new();
    for n in 0..1_100 {
        running.counter.want(1);
        sent.push(Instant::now());
        client.enqueue(stamp::job(n)).await?;
        running.counter.all(Duration::from_secs(10)).await?;
        tokio::time::sleep(REST).await;
    }
    let starts = std::mem::take(&mut *running.starts.0.lock().expect("no holder panics"));
    running.stop().await;
    // The first hundred warm connections and caches up.
    let mut millis: Vec<f64> = starts.iter().skip(100).map(|(n, start)| (*start - sent[*n as usize]).as_secs_f64() * 1e3).collect();
    let p50 = percentile(&mut millis, 50.0);
    server.flush()?;
    let mut across = across(&server.url()).await?;
    Ok(vec![
        Reading::new("_p50", p50, "ms").against(Against::RoundTrip),
        Reading::new("_p50_beside_idle", p50, "ms").beside(round_trip, "an `LPUSH` through a bare socket every 2 ms in the same run"),
        Reading::new("_p90", percentile(&mut millis, 90.0), "ms"),
        Reading::new("_p99", percentile(&mut millis, 99.0), "ms"),
        Reading::new("_p999", percentile(&mut millis, 99.9), "ms"),
        Reading::new("_across_p50", percentile(&mut across, 50.0), "ms").against(Against::RoundTrip),
        Reading::new("_across_p99", percentile(&mut across, 99.0), "ms"),
    ])
}

/// The milliseconds of the same with a worker in another process.
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
