//! What people and callers who look on cost: pages of the dashboard, an open page, and a caller
//! that awaits its result.

use std::{
    future::Future,
    net::SocketAddr,
    time::{Duration, Instant},
};

use futures_util::{FutureExt, future::try_join_all};
use queue_core::{Client, prelude::*};
use queue_dashboard::{Options, Server as Dashboard};
use tokio::{
    io::{AsyncBufReadExt, AsyncReadExt, AsyncWriteExt, BufReader},
    net::TcpStream,
    sync::oneshot,
};

use super::process::process;
use crate::{
    Error,
    frame::{Figure, Reading, Readings, When},
    server::Server,
    stats::percentile,
    tasks::{hundred_bytes, noop},
    worker::{Running, jobs, patience},
};

pub(crate) fn figures() -> Vec<Figure> {
    vec![
        Figure::redis(
            "call",
            "From `call` to the result of a job that does nothing, on an idle worker of the same process, 1,000 jobs one after the other; \
             beside two `LPUSH` through a bare socket.",
            |server| call(server).boxed(),
        ),
        Figure::redis(
            "awaited",
            "Jobs per second whose results are kept and awaited by 50 callers, each of which enqueues its next job once it has the result of the last; \
             one worker, 64 at once, beside the same callers without results, each of which enqueues its next job once the last is stored.",
            |server| awaited(server).boxed(),
        ),
        Figure::redis(
            "progress",
            "`process` while 100 jobs of another queue, in the same process, each tell their progress and log a line four times a second, beside `process` while \
             they tell nothing.",
            |server| progress(server).boxed(),
        ),
        Figure::redis(
            "watched",
            "`process` while the dashboard's page Overview is open and follows, beside `process` in the same run.",
            |server| watched(server).boxed(),
        ),
        Figure::redis(
            "pages",
            "How long the dashboard's server takes for a page, with 1,000 queues and 1,000,000 jobs waiting in one of them: the overview at the first look and \
             later, and the first and the second page of the jobs.",
            |server| {
                let url = server.url();
                async move { pages(&url).await }.boxed()
            },
        )
        .most_runs(1)
        .when(When::Long),
        Figure::sqlite("sqlite_pages", "As `pages`, on SQLite.", |folder| {
            let url = super::sqlite::url(&folder.join("queue.db"));
            async move { pages(&url).await }.boxed()
        })
        .most_runs(1)
        .when(When::Long),
    ]
}

/// How many callers wait for results.
const CALLERS: usize = 50;

async fn awaited(server: &Server) -> Readings {
    let n = 50_000;
    let client = Client::connect(&server.url()).await?;
    let running = Running::start(&client, 64);
    running.counter.want(n);
    let begun = Instant::now();
    called_by(CALLERS, || async { noop::job(hundred_bytes()).enqueue(&client).await.map(drop) }, n).await?;
    running.counter.all(patience()).await?;
    let usual = n as f64 / begun.elapsed().as_secs_f64();
    let begun = Instant::now();
    let wait = || async {
        let handle = noop::job(hundred_bytes()).retention(Duration::from_secs(3600)).enqueue(&client).await?;
        handle.wait(patience()).await.map(drop)
    };
    called_by(CALLERS, wait, n).await?;
    let rate = n as f64 / begun.elapsed().as_secs_f64();
    running.stop().await;
    Ok(vec![Reading::new("", rate, "jobs/s").beside(usual, "the same callers without results")])
}

/// Lets `callers` callers do it `n` times in all, each one time after the other.
async fn called_by<F>(callers: usize, call: impl Fn() -> F, n: usize) -> Result<(), Error>
where
    F: Future<Output = queue_core::Result<()>>,
{
    let one = async || {
        for _ in 0..n / callers {
            call().await?;
        }
        Ok::<(), Error>(())
    };
    try_join_all((0..callers).map(|_| one())).await.map(drop)
}

/// Tells of itself four times a second, for as long as it may.
#[task(queue = "telling", timeout = "10m")]
async fn telling(tells: bool, ctx: JobContext) {
    for n in 0_u32.. {
        if tells {
            ctx.progress(f64::from(n % 100) / 100.0, "telling");
            ctx.log("told");
        }
        tokio::time::sleep(Duration::from_millis(250)).await;
    }
}

async fn progress(server: &Server) -> Readings {
    let silent = beside_telling(server, false).await?;
    let told = beside_telling(server, true).await?;
    Ok(vec![Reading::new("", told, "jobs/s").beside(silent, "beside 100 running jobs that tell nothing")])
}

/// [`process`] beside 100 running jobs.
async fn beside_telling(server: &Server, tells: bool) -> Result<f64, Error> {
    const RUNNING: usize = 100;
    server.flush()?;
    let client = Client::connect(&server.url()).await?;
    client.enqueue_all((0..RUNNING).map(|_| telling::job(tells))).await?;
    let tellers = Running::with(&client, RUNNING, |worker| worker.register::<telling>().queue("telling").grace(Duration::ZERO));
    let begun = Instant::now();
    while client.inspector().stats("telling").await?.count(queue_core::JobState::Active) < RUNNING as u64 {
        if begun.elapsed() > patience() {
            return Err("not all jobs that tell were running in time".into());
        }
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
    let rate = process(&server.url(), 64, 1_000_000).await?;
    tellers.stop().await;
    Ok(rate)
}

async fn call(server: &Server) -> Readings {
    let round_trip = server.idle_round_trip(Duration::from_millis(2))?;
    let client = Client::connect(&server.url()).await?;
    let running = Running::start(&client, 10);
    let mut millis = Vec::new();
    for n in 0..1_100 {
        let begun = Instant::now();
        noop::job(hundred_bytes()).call(&client, Duration::from_secs(10)).await?;
        // The first hundred warm connections and caches up.
        if n >= 100 {
            millis.push(begun.elapsed().as_secs_f64() * 1e3);
        }
    }
    running.stop().await;
    let two = "two `LPUSH` through a bare socket in the same run";
    Ok(vec![
        Reading::new("_p50", percentile(&mut millis, 50.0), "ms").beside(2.0 * round_trip, two),
        Reading::new("_p99", percentile(&mut millis, 99.0), "ms").beside(2.0 * round_trip, two),
    ])
}

async fn watched(server: &Server) -> Readings {
    let n = 200_000;
    let alone = process(&server.url(), 256, n).await?;
    server.flush()?;
    let client = Client::connect(&server.url()).await?;
    let rate = measure_watched(client, async |address| {
        let mut stream = ask(address, "/live/overview").await?;
        let events = tokio::spawn(async move {
            let mut lines = BufReader::new(&mut stream).lines();
            let mut events = 0;
            while let Ok(Some(line)) = lines.next_line().await {
                events += usize::from(line.starts_with("event:") || line.starts_with("data:"));
            }
            events
        });
        let rate = process(&server.url(), 256, n).await?;
        if events.is_finished() {
            return Err("the page ended while it was watched".into());
        }
        events.abort();
        Ok(rate)
    })
    .await?;
    Ok(vec![Reading::new("", rate, "jobs/s").beside(alone, "`process` in the same run")])
}

async fn pages(url: &str) -> Readings {
    let client = Client::connect(url).await?;
    for n in 0..999 {
        client.enqueue(noop::job(hundred_bytes()).queue(format!("tenant-{n}"))).await?;
    }
    client.enqueue_all(jobs(1_000_000)).await?;
    measure_watched(client, async |address| {
        let (first_look, _) = page(address, "/").await?;
        let mut later = Vec::new();
        for _ in 0..20 {
            later.push(page(address, "/").await?.0);
            tokio::time::sleep(Duration::from_millis(100)).await;
        }
        let (first, text) = page(address, "/jobs?state=ready&queue=bench").await?;
        let (second, _) = page(address, &link(&text, "Next")?).await?;
        Ok(vec![
            Reading::new("_overview_first", first_look, "ms"),
            Reading::new("_overview_p50", percentile(&mut later, 50.0), "ms"),
            Reading::new("_overview_max", percentile(&mut later, 100.0), "ms"),
            Reading::new("_jobs_first", first, "ms"),
            Reading::new("_jobs_second", second, "ms"),
        ])
    })
    .await
}

/// Serves a dashboard while something looks at it.
async fn measure_watched<T, F: Future<Output = Result<T, Error>>>(client: Client, look: impl FnOnce(SocketAddr) -> F) -> Result<T, Error> {
    let mut options = Options::default();
    (options.bind, options.no_auth) = (([127, 0, 0, 1], 0).into(), true);
    let dashboard = Dashboard::bind(client, options).await?;
    let address = dashboard.address()?;
    let (stop, stopped) = oneshot::channel::<()>();
    let served = tokio::spawn(dashboard.run(stopped.map(drop)));
    let seen = look(address).await;
    drop(stop);
    served.await??;
    seen
}

async fn ask(address: SocketAddr, path: &str) -> Result<TcpStream, Error> {
    let mut stream = TcpStream::connect(address).await?;
    stream.set_nodelay(true)?;
    stream.write_all(format!("GET {path} HTTP/1.1\r\nHost: {address}\r\nConnection: close\r\n\r\n").as_bytes()).await?;
    Ok(stream)
}

/// Milliseconds until a page is there, and the page.
async fn page(address: SocketAddr, path: &str) -> Result<(f64, String), Error> {
    let begun = Instant::now();
    let mut text = String::new();
    ask(address, path).await?.read_to_string(&mut text).await?;
    if !text.starts_with("HTTP/1.1 200") {
        return Err(format!("{path} was answered by {}", text.lines().next().unwrap_or_default()).into());
    }
    Ok((begun.elapsed().as_secs_f64() * 1e3, text))
}

/// Where the link of this name leads.
fn link(page: &str, name: &str) -> Result<String, Error> {
    let end = page.find(&format!(">{name}</a>")).ok_or_else(|| format!("the page has no link {name}"))?;
    let (_, path) = page[..end].rsplit_once("href=\"").ok_or("a link without an address")?;
    Ok(path.split('"').next().unwrap_or_default().replace("&amp;", "&").replace("&#38;", "&"))
}
