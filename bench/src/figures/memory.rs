//! What a waiting job takes of the server's memory.

use std::time::Duration;

use futures_util::FutureExt;
use queue_core::Client;

use crate::{
    frame::{Figure, Reading, Readings},
    server::Server,
    tasks::{noop, parameter},
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

async fn memory(server: &Server) -> Readings {
    let mut readings = Vec::new();
    for (suffix, bytes) in [("", 100), ("_200", 200)] {
        let n = 200_000;
        server.flush()?;
        let client = Client::connect(&server.url()).await?;
        client.enqueue(noop::job(parameter(bytes))).await?;
        let before = server.info("memory", "used_memory")?;
        client.enqueue_all(jobs_of(n, parameter(bytes))).await?;
        // While a hash table grows, both its tables are there.
        tokio::time::sleep(Duration::from_secs(2)).await;
        let each = (server.info("memory", "used_memory")? - before) / n as f64;
        readings.push(Reading::new(suffix, each - bytes as f64, "bytes"));
    }
    Ok(readings)
}
