//! How late a job starts that had a time to start at.

use std::time::{Duration, SystemTime};

use futures_util::FutureExt;
use queue_core::prelude::*;

use crate::{
    frame::{Figure, Reading, Readings},
    stats::percentile,
    tasks::{due, now_us},
    worker::Running,
};

pub(crate) fn figures() -> Vec<Figure> {
    let about = "Between the time for which a job was asked and its start: 10,000 jobs spread over 10 s, and 60 single ones after 20 to 500 ms on an idle queue.";
    vec![
        Figure::redis("lateness", about, |server| {
            let url = server.url();
            async move { lateness(&url).await }.boxed()
        })
        .most_runs(2),
    ]
}

pub(crate) async fn lateness(url: &str) -> Readings {
    let client = Client::connect(url).await?;
    let running = Running::start(&client, 64);
    let at = |delay: Duration| {
        // Whole milliseconds, as they are stored.
        let ms = (now_us() + delay.as_micros() as u64).div_ceil(1000);
        due::job(ms * 1000).at(SystemTime::UNIX_EPOCH + Duration::from_millis(ms))
    };
    running.counter.want(10_000);
    let spread = (0..10_000).map(|_| at(Duration::from_micros(1_000_000 + fastrand::u64(..10_000_000))));
    client.enqueue_all(spread.collect::<Vec<_>>()).await?;
    running.counter.all(Duration::from_secs(60)).await?;
    let mut spread = running.lateness.take_ms();
    for delay in (20..500).step_by(8) {
        running.counter.want(1);
        client.enqueue(at(Duration::from_millis(delay))).await?;
        running.counter.all(Duration::from_secs(10)).await?;
    }
    let mut single = running.lateness.take_ms();
    running.stop().await;
    let early = spread.iter().chain(&single).filter(|late| **late < 0.0).count();
    Ok(vec![
        Reading::new("_p50", percentile(&mut spread, 50.0), "ms"),
        Reading::new("_p99", percentile(&mut spread, 99.0), "ms"),
        Reading::new("_single_p50", percentile(&mut single, 50.0), "ms"),
        Reading::new("_single_p99", percentile(&mut single, 99.0), "ms"),
        Reading::new("_early", early as f64, "jobs"),
    ])
}
