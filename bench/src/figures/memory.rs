//! What a waiting job takes of the server's memory.

use std::time::Duration;

use futures_util::FutureExt;
use queue_core::{Client, Job, Task};

use crate::{
    Error,
    frame::{Figure, Reading, Readings},
    server::Server,
    tasks::{hundred_bytes, noop, parameter},
    worker::jobs_of,
};

pub(crate) fn figures() -> Vec<Figure> {
    vec![
        Figure::redis(
            "memory",
            "Bytes of redis-server per pending job beyond its payload of 100 or 200 bytes, 200,000 of them.",
            |server| memory(server).boxed(),
        )
        .most_runs(3),
    ]
}

const JOBS: usize = 200_000;

async fn memory(server: &Server) -> Readings {
    let mut readings = Vec::new();
    for (suffix, bytes) in [("", 100), ("_200", 200)] {
        server.flush()?;
        let each = bytes_each(server, jobs_of(JOBS, parameter(bytes))).await?;
        readings.push(Reading::new(suffix, each - bytes as f64, "bytes"));
    }
    Ok(readings)
}

/// How many bytes each of 200,000 waiting jobs takes, with its payload.
pub(crate) async fn bytes_each<T: Task>(server: &Server, jobs: impl Iterator<Item = Job<T>> + Send) -> Result<f64, Error> {
    let client = Client::connect(&server.url()).await?;
    client.enqueue(noop::job(hundred_bytes())).await?;
    let before = server.info("memory", "used_memory")?;
    client.enqueue_all(jobs).await?;
    // While a hash table grows, both its tables are there.
    tokio::time::sleep(Duration::from_secs(2)).await;
    Ok((server.info("memory", "used_memory")? - before) / JOBS as f64)
}
