//! How fast jobs are enqueued.

use std::time::Instant;

use futures_util::{FutureExt, future::join_all};
use queue_core::Client;

use crate::{
    Error,
    frame::{Figure, Reading},
    tasks::{hundred_bytes, noop},
    worker::jobs,
};

pub(crate) fn figures() -> Vec<Figure> {
    vec![
        Figure::redis("enqueue_seq", "One producer that awaits each of 20,000 jobs before the next.", |server| {
            let url = server.url();
            async move { Ok(vec![Reading::rate(concurrently(&url, 1, 20_000).await?)]) }.boxed()
        })
        .raw(1),
        Figure::redis("enqueue_c50", "50 concurrent producers, each awaiting its own answers: 200,000 jobs.", |server| {
            let url = server.url();
            async move { Ok(vec![Reading::rate(concurrently(&url, 50, 200_000).await?)]) }.boxed()
        })
        .raw(50),
        Figure::redis("enqueue_c500", "500 concurrent producers, each awaiting its own answers: 200,000 jobs.", |server| {
            let url = server.url();
            async move { Ok(vec![Reading::rate(concurrently(&url, 500, 200_000).await?)]) }.boxed()
        })
        .raw(50),
        Figure::redis("enqueue_all", "200,000 jobs in one call of `enqueue_all`.", |server| {
            let url = server.url();
            async move { Ok(vec![Reading::rate(all(&url, 200_000).await?)]) }.boxed()
        })
        .raw(50),
    ]
}

/// Jobs per second of so many producers, each with one job on its way.
pub(crate) async fn concurrently(url: &str, producers: usize, n: usize) -> Result<f64, Error> {
    let client = Client::connect(url).await?;
    client.enqueue(noop::job(hundred_bytes())).await?;
    let begun = Instant::now();
    produce(&client, producers, n).await?;
    Ok(n as f64 / begun.elapsed().as_secs_f64())
}

/// Enqueues so many jobs by so many producers.
pub(crate) async fn produce(client: &Client, producers: usize, n: usize) -> Result<(), Error> {
    let tasks = (0..producers).map(|_| {
        let client = client.clone();
        async move {
            for job in jobs(n / producers) {
                client.enqueue(job).await?;
            }
            Ok::<_, Error>(())
        }
    });
    if producers == 1 {
        // As whoever awaits one job after the other does: without a task of its own.
        join_all(tasks).await.into_iter().collect::<Result<(), _>>()?;
    } else {
        for task in join_all(tasks.map(tokio::spawn)).await {
            task??;
        }
    }
    Ok(())
}

/// Jobs per second of one call.
pub(crate) async fn all(url: &str, n: usize) -> Result<f64, Error> {
    let client = Client::connect(url).await?;
    client.enqueue(noop::job(hundred_bytes())).await?;
    let begun = Instant::now();
    client.enqueue_all(jobs(n)).await?;
    Ok(n as f64 / begun.elapsed().as_secs_f64())
}
