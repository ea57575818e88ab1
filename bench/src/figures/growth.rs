//! Whether more of everything makes it slower: waiting jobs, queues, bytes.

use futures_util::FutureExt;
use queue_core::Client;

use crate::{
    Error,
    frame::{Bar, Figure, Reading, Readings, When},
    server::Server,
    worker::{PATIENCE, Running, jobs},
};

/// What is pending in the small case that the others are compared with.
const FEW: usize = 10_000;

pub(crate) fn figures() -> Vec<Figure> {
    let pending =
        |name: &'static str, about: &'static str, n: usize| Figure::redis(name, about, move |server| pending(server, n).boxed()).raw(50);
    vec![
        pending("growth_10k", "`process` while 10 thousand jobs or fewer are pending, 20 times.", FEW),
        pending("growth_1m", "`process` of 200,000 jobs of a million that are pending, beside `growth_10k` in the same run.", 1_000_000),
        pending("growth", "`process` of 200,000 jobs of 10 million that are pending, beside `growth_10k` in the same run.", 10_000_000)
            .when(When::Long)
            .most_runs(3),
    ]
}

async fn pending(server: &Server, n: usize) -> Readings {
    let url = server.url();
    let mut few = 0.0;
    for _ in 0..20 {
        few += seconds(&url, FEW, FEW).await?;
    }
    let few = (20 * FEW) as f64 / few;
    if n == FEW {
        return Ok(vec![Reading::rate(few)]);
    }
    let measured = 200_000;
    let rate = measured as f64 / seconds(&url, n, measured).await?;
    Ok(vec![Reading::new("", rate, "jobs/s").beside(few, "the same with 10 thousand pending").bar(Bar::RatioAtLeast(0.9))])
}

/// How long the first `measured` of so many jobs take, from the start of the very first.
async fn seconds(url: &str, n: usize, measured: usize) -> Result<f64, Error> {
    let client = Client::connect(url).await?;
    client.enqueue_all(jobs(n)).await?;
    let running = Running::start(&client, 256);
    running.counter.want(measured);
    running.counter.all(PATIENCE).await?;
    let seconds = running.counter.first().ok_or("no job ran")?.elapsed().as_secs_f64();
    running.stop().await;
    Ok(seconds)
}
