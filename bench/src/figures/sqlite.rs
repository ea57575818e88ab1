//! The figures of SQLite.

use std::path::Path;

use futures_util::FutureExt;

use super::{enqueue, latency, lateness, process};
use crate::{
    frame::{Bar, Figure, Reading},
    stats::percentile,
};

pub(crate) fn figures() -> Vec<Figure> {
    vec![
        Figure::sqlite("sqlite_process", "100,000 preloaded no-op jobs of 100 bytes, one worker process, concurrency 64.", |folder| {
            let url = url(folder);
            async move { Ok(vec![Reading::new("", process::process(&url, 64, 100_000).await?, "jobs/s")]) }.boxed()
        }),
        Figure::sqlite("sqlite_enqueue_all", "200,000 jobs in one call of `enqueue_all`.", |folder| {
            let url = url(folder);
            async move { Ok(vec![Reading::new("", enqueue::all(&url, 200_000).await?, "jobs/s")]) }.boxed()
        }),
        Figure::sqlite("sqlite_enqueue_c50", "50 concurrent producers, each awaiting its own answers: 100,000 jobs.", |folder| {
            let url = url(folder);
            async move { Ok(vec![Reading::new("", enqueue::concurrently(&url, 50, 100_000).await?, "jobs/s")]) }.boxed()
        }),
        Figure::sqlite(
            "sqlite_latency",
            "From the call of `enqueue` to the start of the handler in another process, 500 jobs.",
            |folder| {
                let url = url(folder);
                async move {
                    let mut millis = latency::across(&url).await?;
                    Ok(vec![
                        Reading::new("_p50", percentile(&mut millis, 50.0), "ms").bar(Bar::AtMost(3.0)),
                        Reading::new("_p99", percentile(&mut millis, 99.0), "ms"),
                    ])
                }
                .boxed()
            },
        ),
        Figure::sqlite("sqlite_lateness", "As `lateness`.", |folder| {
            let url = url(folder);
            async move { lateness::lateness(&url).await }.boxed()
        })
        .most_runs(3),
    ]
}

fn url(folder: &Path) -> String {
    format!("sqlite://{}", folder.join("queue.db").display())
}
