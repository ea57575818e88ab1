//! What must not happen when much comes at once: a server that stands still for others, and memory
//! without a bound.

use std::{
    sync::atomic::{AtomicBool, Ordering},
    time::{Duration, Instant, SystemTime},
};

use futures_util::FutureExt;
use queue_core::prelude::*;

use super::process::process;
use crate::{
    Error,
    children::{self, WorkerProcess},
    frame::{Figure, Reading, Readings},
    server::Server,
    stats::percentile,
    worker::{Running, drain, jobs, jobs_of},
};

pub(crate) fn figures() -> Vec<Figure> {
    let due = "A million jobs that are due in the same millisecond, and a worker of concurrency 256: the CPU time of the longest script, what another client's PING takes meanwhile, and how fast they are drained beside `process` in the same run.";
    let big = "2,000 payloads of 256 KiB, drained by a worker process of concurrency 256: the CPU time of the longest script, the largest answer to a claim of 256, and the peak memory of worker and server.";
    vec![
        Figure::redis("due_at_once", due, |server| due_at_once(server).boxed()).by_cpu().most_runs(2),
        Figure::redis("big_payloads", big, |server| big_payloads(server).boxed()).by_cpu().most_runs(3),
    ]
}

async fn due_at_once(server: &Server) -> Readings {
    let n = 1_000_000;
    let usual = process(&server.url(), 256, 200_000).await?;
    server.flush()?;
    let client = Client::connect(&server.url()).await?;
    // Long enough for all of them to be stored before.
    let due = SystemTime::now() + Duration::from_secs(12);
    client.enqueue_all(jobs(n).map(|job| job.at(due))).await?;
    let left = due.duration_since(SystemTime::now()).map_err(|_| "the jobs were due before all were enqueued")?;
    server.watch_slow()?;
    let running = Running::start(&client, 256);
    running.counter.want(n);
    tokio::time::sleep(left).await;
    let stranger = Stranger::start(server)?;
    let rate = drain(&running, Instant::now(), n).await?;
    let mut pings = stranger.stop()?;
    running.stop().await;
    Ok(vec![
        server.longest_script()?,
        Reading::new("_ping_p99", percentile(&mut pings, 99.0), "ms"),
        Reading::new("_drain", rate, "jobs/s").beside(usual, "`process` in the same run"),
    ])
}

/// Another client, which pings every millisecond.
struct Stranger {
    stop: std::sync::Arc<AtomicBool>,
    thread: std::thread::JoinHandle<redis::RedisResult<Vec<f64>>>,
}

impl Stranger {
    fn start(server: &Server) -> Result<Self, Error> {
        let mut connection = server.connection()?;
        let stop = std::sync::Arc::new(AtomicBool::new(false));
        let stopped = stop.clone();
        let thread = std::thread::spawn(move || {
            let mut millis = Vec::new();
            while !stopped.load(Ordering::Relaxed) {
                let begun = Instant::now();
                redis::cmd("PING").query::<()>(&mut connection)?;
                millis.push(begun.elapsed().as_secs_f64() * 1e3);
                std::thread::sleep(Duration::from_millis(1));
            }
            Ok(millis)
        });
        Ok(Stranger { stop, thread })
    }

    /// How long each of its pings took, in milliseconds.
    fn stop(self) -> Result<Vec<f64>, Error> {
        self.stop.store(true, Ordering::Relaxed);
        Ok(self.thread.join().map_err(|_| "the client that pings panicked")??)
    }
}

async fn big_payloads(server: &Server) -> Readings {
    let (n, bytes) = (2_000, 256 * 1024 - 64);
    let client = Client::connect(&server.url()).await?;
    server.watch_slow()?;
    client.enqueue_all(jobs_of(n, "x".repeat(bytes))).await?;
    let largest = largest_answer(&client).await?;
    let mut workers = [WorkerProcess::ready(&server.url(), 256, "").await?];
    let before = server.info("memory", "used_memory")?;
    let rate = children::drain(&mut workers, n - largest.0).await?;
    Ok(vec![
        server.longest_script()?,
        Reading::new("_answer", largest.1 as f64 / 1024.0, "KiB"),
        Reading::new("_worker", workers[0].peak_kib()? / 1024.0, "MiB"),
        Reading::new("_server", (server.info("memory", "used_memory_peak")? - before) / 1024.0 / 1024.0, "MiB more"),
        Reading::new("", rate, "jobs/s"),
    ])
}

/// What a turn gives that asks for 256 jobs: how many, and bytes. They are taken, and not given
/// back.
async fn largest_answer(client: &Client) -> Result<(usize, usize), Error> {
    use queue_core::broker::{ProcessId, Register, Turn};
    let lease = Duration::from_secs(600);
    let worker = client.broker().register(&Register::lane("bench", ProcessId::random(), lease)).await?.name;
    let answer = client.broker().turn(&Turn::new("bench", worker, 1, lease).claim(256)).await?;
    Ok((answer.deliveries.len(), answer.deliveries.iter().map(|delivery| delivery.envelope.len()).sum()))
}
