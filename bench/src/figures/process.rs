//! How fast a backlog is drained, and what that costs the server.

use std::time::Instant;

use futures_util::FutureExt;
use queue_core::Client;

use crate::{
    Error,
    children::{self, WorkerProcess},
    frame::{Bar, Figure, Reading, Readings},
    server::Server,
    worker::{Running, drain, jobs},
};

pub(crate) fn figures() -> Vec<Figure> {
    let at = |name: &'static str, about: &'static str, concurrency: usize, n: usize, bar: Option<Bar>| {
        Figure::redis(name, about, move |server| {
            let url = server.url();
            async move { Ok(vec![barred(Reading::rate(process(&url, concurrency, n).await?), bar)]) }.boxed()
        })
        .raw(50)
    };
    let processes = |name: &'static str, about: &'static str, processes: usize| {
        Figure::redis(name, about, move |server| process_in(server.url(), processes).boxed()).raw(50)
    };
    vec![
        at(
            "process",
            "200,000 preloaded no-op jobs of 100 bytes, one worker process, concurrency 256.",
            256,
            200_000,
            Some(Bar::RatioAtLeast(1.3)),
        ),
        at("process_c64", "The same with concurrency 64, the default.", 64, 200_000, Some(Bar::RatioAtLeast(1.0))),
        at("process_c10", "The same with 100,000 jobs and concurrency 10.", 10, 100_000, None),
        at("process_c1", "The same with 20,000 jobs, one after the other.", 1, 20_000, None),
        processes("process_1_process", "The same in a worker process of its own, apart from the one that enqueued.", 1),
        processes("process_2_processes", "The same in two worker processes.", 2),
        processes("process_4_processes", "The same in four worker processes.", 4),
        Figure::redis("server_us", "CPU time of redis-server per job, through enqueue, claim and ack, at concurrency 256.", |server| {
            server_us(server).boxed()
        }),
    ]
}

fn barred(reading: Reading, bar: Option<Bar>) -> Reading {
    match bar {
        Some(bar) => reading.bar(bar),
        None => reading,
    }
}

/// Jobs per second of one worker in this process.
pub(crate) async fn process(url: &str, concurrency: usize, n: usize) -> Result<f64, Error> {
    let client = Client::connect(url).await?;
    client.enqueue_all(jobs(n)).await?;
    let begun = Instant::now();
    let running = Running::start(&client, concurrency);
    running.counter.want(n);
    let rate = drain(&running, begun, n).await?;
    running.stop().await;
    Ok(rate)
}

async fn process_in(url: String, processes: usize) -> Readings {
    let n = 200_000;
    let client = Client::connect(&url).await?;
    client.enqueue_all(jobs(n)).await?;
    let mut workers = Vec::new();
    for _ in 0..processes {
        workers.push(WorkerProcess::ready(&url, 256, "").await?);
    }
    Ok(vec![Reading::rate(children::drain(&mut workers, n).await?)])
}

async fn server_us(server: &Server) -> Readings {
    let n = 200_000;
    let begun = server.cpu_us()?;
    process(&server.url(), 256, n).await?;
    Ok(vec![Reading::new("", (server.cpu_us()? - begun) / n as f64, "us").bar(Bar::AtMost(8.0))])
}
