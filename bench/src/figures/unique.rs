//! What a unique key costs: each figure beside the same without keys, in the same run.

use std::time::Instant;

use futures_util::{FutureExt, future::join_all};
use queue_core::{Client, Job};

use super::{enqueue, process::process};
use crate::{
    Error,
    frame::{Figure, Reading, Readings},
    server::Server,
    tasks::{hundred_bytes, noop, unique},
    worker::{Running, drain},
};

pub(crate) fn figures() -> Vec<Figure> {
    vec![
        Figure::redis(
            "unique_enqueue_c50",
            "`enqueue_c50` with a key of its own for each job, made of a parameter, beside `enqueue_c50` in the same run.",
            |server| concurrently(server).boxed(),
        ),
        Figure::redis(
            "unique_enqueue_all",
            "`enqueue_all` with a key of its own for each job, beside `enqueue_all` in the same run.",
            |server| all(server).boxed(),
        ),
        Figure::redis("unique_process", "`process` with a key of its own for each job, beside `process` in the same run.", |server| {
            processed(server).boxed()
        }),
    ]
}

const JOBS: usize = 200_000;

/// Jobs with a key each, from this number on.
fn jobs(from: usize, n: usize) -> impl Iterator<Item = Job<unique>> + Send + use<> {
    (from..from + n).map(|number| unique::job(number as u64, hundred_bytes()))
}

async fn concurrently(server: &Server) -> Readings {
    let usual = enqueue::concurrently(&server.url(), 50, JOBS).await?;
    server.flush()?;
    let client = Client::connect(&server.url()).await?;
    client.enqueue(noop::job(hundred_bytes())).await?;
    let begun = Instant::now();
    let producers = (0..50).map(|producer| {
        let client = client.clone();
        tokio::spawn(async move {
            for job in jobs(producer * JOBS, JOBS / 50) {
                client.enqueue(job).await?;
            }
            Ok::<_, Error>(())
        })
    });
    for task in join_all(producers).await {
        task??;
    }
    let rate = JOBS as f64 / begun.elapsed().as_secs_f64();
    Ok(vec![Reading::new("", rate, "jobs/s").beside(usual, "`enqueue_c50` in the same run")])
}

async fn all(server: &Server) -> Readings {
    let usual = enqueue::all(&server.url(), JOBS).await?;
    server.flush()?;
    let client = Client::connect(&server.url()).await?;
    client.enqueue(noop::job(hundred_bytes())).await?;
    let begun = Instant::now();
    client.enqueue_all(jobs(0, JOBS)).await?;
    let rate = JOBS as f64 / begun.elapsed().as_secs_f64();
    Ok(vec![Reading::new("", rate, "jobs/s").beside(usual, "`enqueue_all` in the same run")])
}

async fn processed(server: &Server) -> Readings {
    let usual = process(&server.url(), 256, JOBS).await?;
    server.flush()?;
    let client = Client::connect(&server.url()).await?;
    client.enqueue_all(jobs(0, JOBS)).await?;
    let begun = Instant::now();
    let running = Running::start(&client, 256);
    running.counter.want(JOBS);
    let rate = drain(&running, begun, JOBS).await?;
    running.stop().await;
    Ok(vec![Reading::new("", rate, "jobs/s").beside(usual, "`process` in the same run")])
}
