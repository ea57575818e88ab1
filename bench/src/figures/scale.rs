//! More worker processes, more queues, and a fleet that has nothing to do.

use std::time::{Duration, Instant};

use futures_util::{FutureExt, future::join_all};
use queue_core::Client;

use super::process::{drain_queues, process};
use crate::{
    Error,
    children::{self, WorkerProcess},
    frame::{Against, Figure, Reading, Readings},
    server::Server,
    tasks::{hundred_bytes, noop},
    worker::jobs,
};

pub(crate) fn figures() -> Vec<Figure> {
    let processes = "200,000 preloaded jobs, drained by 1, 2 and 4 worker processes of concurrency 256; 2 and 4 beside 1 in the same run.";
    let queues = "200,000 preloaded jobs evenly in 1,000 queues: `process` beside the same in one queue in the same run.";
    let enqueue = "`enqueue_c50` to 1,000 queues in turn.";
    let idle = "Share of a core that redis-server needs for 10 worker processes that each serve 100 queues without jobs, over 20 s.";
    vec![
        Figure::redis("scale_out", processes, |server| in_processes(server).boxed()).raw(50),
        Figure::redis("scale_out_queues", queues, |server| in_queues(server).boxed()),
        Figure::redis("scale_out_enqueue", enqueue, |server| to_queues(server).boxed()).raw(50),
        Figure::redis("scale_out_idle", idle, |server| idle_fleet(server).boxed()).most_runs(1),
    ]
}

async fn in_processes(server: &Server) -> Readings {
    let n = 200_000;
    let mut rates = Vec::new();
    for processes in [1, 2, 4] {
        server.flush()?;
        let client = Client::connect(&server.url()).await?;
        client.enqueue_all(jobs(n)).await?;
        let mut workers = Vec::new();
        for _ in 0..processes {
            workers.push(WorkerProcess::ready(&server.url(), 256, "").await?);
        }
        rates.push(children::drain(&mut workers, n).await?);
    }
    let [one, two, four] = rates[..] else { return Err("three rates were measured".into()) };
    let beside = |reading: Reading| reading.beside(one, "one worker process in the same run");
    Ok(vec![
        Reading::new("_1", one, "jobs/s").against(Against::Raw),
        beside(Reading::new("_2", two, "jobs/s")),
        beside(Reading::new("_4", four, "jobs/s")),
    ])
}

/// The names of so many queues.
fn names(n: usize) -> Vec<String> {
    (0..n).map(|number| format!("bench-{number}")).collect()
}

async fn in_queues(server: &Server) -> Readings {
    let n = 200_000;
    let one = process(&server.url(), 256, n).await?;
    server.flush()?;
    let client = Client::connect(&server.url()).await?;
    let queues = names(1000);
    client.enqueue_all(jobs(n).zip(queues.iter().cycle()).map(|(job, queue)| job.queue(queue))).await?;
    let many = drain_queues(&server.url(), 256, n, &queues).await?;
    Ok(vec![Reading::new("", many, "jobs/s").beside(one, "one queue in the same run")])
}

async fn to_queues(server: &Server) -> Readings {
    let (producers, n) = (50, 100_000);
    let client = Client::connect(&server.url()).await?;
    let queues: std::sync::Arc<[String]> = names(1000).into();
    // Names are registered by the first enqueue to a queue.
    client.enqueue_all(queues.iter().map(|queue| noop::job(hundred_bytes()).queue(queue))).await?;
    let begun = Instant::now();
    let tasks = (0..producers).map(|producer| {
        let (client, queues) = (client.clone(), queues.clone());
        tokio::spawn(async move {
            for (number, job) in jobs(n / producers).enumerate() {
                client.enqueue(job.queue(&queues[(number * producers + producer) % queues.len()])).await?;
            }
            Ok::<_, Error>(())
        })
    });
    for task in join_all(tasks).await {
        task??;
    }
    Ok(vec![Reading::rate(n as f64 / begun.elapsed().as_secs_f64())])
}

async fn idle_fleet(server: &Server) -> Readings {
    let queues = names(100).join(",");
    let mut workers = Vec::new();
    for _ in 0..10 {
        let mut worker = WorkerProcess::ready(&server.url(), 64, &queues).await?;
        worker.go().await?;
        workers.push(worker);
    }
    // They register, and find that there is nothing.
    tokio::time::sleep(Duration::from_secs(8)).await;
    let (begun, before) = (Instant::now(), server.cpu_us()?);
    tokio::time::sleep(Duration::from_secs(20)).await;
    let share = (server.cpu_us()? - before) / begun.elapsed().as_micros() as f64 * 100.0;
    Ok(vec![Reading::new("", share, "% core")])
}
