//! How soon a job that runs is told that it is no longer wanted.

use std::{
    path::Path,
    sync::{Arc, Mutex},
    time::Instant,
};

use futures_util::FutureExt;
use queue_core::{Client, prelude::*};
use tokio::sync::Notify;

use crate::{
    frame::{Figure, Reading, Readings},
    stats::percentile,
    worker::{Running, patience},
};

pub(crate) fn figures() -> Vec<Figure> {
    let about = "From the call of `cancel` by another client to the moment at which the handler of the job, which runs, is told; 500 jobs, one after the other.";
    vec![
        Figure::redis("cancel", about, |server| {
            let url = server.url();
            async move { told(&url).await }.boxed()
        }),
        Figure::sqlite("sqlite_cancel", "As `cancel`, on SQLite.", |folder: &Path| {
            let url = super::sqlite::url(&folder.join("queue.db"));
            async move { told(&url).await }.boxed()
        }),
    ]
}

/// When the job that runs has begun, and when it was told.
#[derive(Debug, Default)]
struct Told {
    begun: Notify,
    at: Mutex<Option<Instant>>,
    told: Notify,
}

#[task(queue = "unwanted", max_attempts = 1)]
async fn unwanted(told: Data<Arc<Told>>, ctx: JobContext) {
    told.begun.notify_one();
    ctx.cancelled().await;
    *told.at.lock().expect("no holder panics") = Some(Instant::now());
    told.told.notify_one();
}

async fn told(url: &str) -> Readings {
    let (client, elsewhere) = (Client::connect(url).await?, Client::connect(url).await?);
    let told = Arc::new(Told::default());
    let running = Running::with(&client, 10, |worker| worker.register::<unwanted>().queue("unwanted").data(told.clone()));
    let mut millis = Vec::new();
    for _ in 0..500 {
        let job = unwanted::job().enqueue(&client).await?;
        tokio::time::timeout(patience(), told.begun.notified()).await?;
        let asked = Instant::now();
        elsewhere.handle::<unwanted>(job.address().clone()).cancel("unwanted").await?;
        tokio::time::timeout(patience(), told.told.notified()).await?;
        let at = told.at.lock().expect("no holder panics").take().ok_or("it was told")?;
        millis.push(at.duration_since(asked).as_secs_f64() * 1e3);
    }
    running.stop().await;
    Ok(vec![Reading::new("_p50", percentile(&mut millis, 50.0), "ms"), Reading::new("_p99", percentile(&mut millis, 99.0), "ms")])
}
