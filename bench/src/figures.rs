//! The figures, one function each.

use std::{
    path::Path,
    process::Stdio,
    sync::Arc,
    time::{Duration, Instant, SystemTime},
};

use futures_util::future::{BoxFuture, FutureExt, join_all};
use queue_core::{prelude::*, registry::Registry};
use queue_tests::{cluster::Cluster, server::Kind};
use queue_worker::Worker;
use tempfile::TempDir;
use tokio::io::{AsyncBufReadExt, BufReader};
use tokio_util::sync::CancellationToken;

use crate::{
    Error, Line, percentile,
    raw::Server,
    tasks::{Counter, Lateness, Starts, age, due, hundred_bytes, noop, now_us, stamp},
};

/// A figure that can be asked for by name.
pub(crate) struct Figure {
    pub(crate) broker: &'static str,
    pub(crate) name: &'static str,
    measure: Measure,
}

enum Measure {
    Redis(fn(&Server) -> BoxFuture<'_, Values>),
    Sqlite(fn(&str) -> BoxFuture<'_, Values>),
    /// On a cluster; the reference is the same on one server and its replica. The number is that of queues.
    Cluster(usize, fn(String, Vec<String>) -> BoxFuture<'static, Values>),
}

/// Name suffix, value, unit, and how many clients the raw reference has (0: no ratio).
type Values = Result<Vec<(&'static str, f64, &'static str, usize)>, Error>;

const fn redis(name: &'static str, measure: fn(&Server) -> BoxFuture<'_, Values>) -> Figure {
    Figure { broker: "redis", name, measure: Measure::Redis(measure) }
}

const fn sqlite(name: &'static str, measure: fn(&str) -> BoxFuture<'_, Values>) -> Figure {
    Figure { broker: "sqlite", name, measure: Measure::Sqlite(measure) }
}

const fn cluster(name: &'static str, queues: usize, measure: fn(String, Vec<String>) -> BoxFuture<'static, Values>) -> Figure {
    Figure { broker: "cluster", name, measure: Measure::Cluster(queues, measure) }
}

pub(crate) const FIGURES: &[Figure] = &[
    redis("process", |server| process(server.url(), 64, 200_000).boxed()),
    redis("process_c256", |server| process(server.url(), 256, 200_000).boxed()),
    redis("enqueue_c50", |server| enqueue_concurrent(server.url(), 50, 200_000).boxed()),
    redis("enqueue_c500", |server| enqueue_concurrent(server.url(), 500, 200_000).boxed()),
    redis("enqueue_all", |server| enqueue_all(server.url(), 200_000).boxed()),
    redis("enqueue_seq", |server| enqueue_seq(server.url(), 20_000).boxed()),
    redis("latency", |server| latency(server.url()).boxed()),
    redis("lateness", |server| lateness(server.url()).boxed()),
    redis("server_us", |server| server_us(server).boxed()),
    redis("memory", |server| memory(server).boxed()),
    sqlite("sqlite_process", |url| process(url.to_owned(), 64, 100_000).boxed()),
    sqlite("sqlite_enqueue_all", |url| enqueue_all(url.to_owned(), 200_000).boxed()),
    sqlite("sqlite_enqueue_c50", |url| enqueue_concurrent(url.to_owned(), 50, 100_000).boxed()),
    sqlite("sqlite_latency", |url| latency_across(url.to_owned()).boxed()),
    sqlite("sqlite_lateness", |url| lateness(url.to_owned()).boxed()),
    cluster("cluster_process", 1, |url, queues| process_queues(url, queues, 64, 200_000).boxed()),
    cluster("cluster_process_six_queues", 6, |url, queues| process_queues(url, queues, 64, 200_000).boxed()),
    cluster("cluster_enqueue_c50", 1, |url, queues| enqueue_queues(url, queues, 50, 200_000).boxed()),
    cluster("cluster_enqueue_c50_six_queues", 6, |url, queues| enqueue_queues(url, queues, 50, 200_000).boxed()),
];

/// Takes a figure once, between two readings of raw where it has a ratio.
pub(crate) async fn run(figure: &Figure, server: &Path, disk: &Path) -> Result<Vec<Line>, Error> {
    match &figure.measure {
        Measure::Redis(measure) => {
            let server = Server::start(server)?;
            let clients = if figure.name == "enqueue_seq" { 1 } else { 50 };
            let before = server.raw(clients)?;
            let values = measure(&server).await?;
            server.flush()?;
            let raw = (before + server.raw(clients)?) / 2.0;
            Ok(values.into_iter().map(|value| line(figure, value, Some(raw))).collect())
        }
        Measure::Cluster(queues, measure) => {
            let alone = Server::start(server)?;
            let cluster = Cluster::start(Kind::Redis, Duration::from_secs(5));
            // The master of a cluster has a replica: so has the one that it is compared with.
            let port = alone.url().rsplit_once(':').map_or_else(String::new, |(_, port)| port.to_owned());
            let replica = queue_tests::server::Server::with(Kind::Redis, &["--replicaof", "127.0.0.1", &port]);
            queue_tests::patience::until("the replica to follow", || async {
                replica.command(&["INFO", "replication"]).contains("master_link_status:up")
            })
            .await;
            // Two queues on each of three masters, or one on the first.
            let mut names: Vec<String> = Vec::new();
            for number in 0.. {
                let name = format!("bench-{number}");
                if names.len() == *queues {
                    break;
                }
                if cluster.master(cluster.slot(&name)) == names.len() % 3 {
                    names.push(name);
                }
            }
            let rate = async |url: String| {
                let values = measure(url, names.clone()).await?;
                Ok::<f64, Error>(values[0].1)
            };
            let before = rate(alone.url()).await?;
            let value = rate(cluster.url()).await?;
            alone.flush()?;
            let reference = (before + rate(alone.url()).await?) / 2.0;
            Ok(vec![line(figure, ("", value, "jobs/s", 1), Some(reference))])
        }
        Measure::Sqlite(measure) => {
            let folder = TempDir::with_prefix_in("bench-", disk)?;
            let url = format!("sqlite://{}", folder.path().canonicalize()?.join("queue.db").display());
            Ok(measure(&url).await?.into_iter().map(|value| line(figure, value, None)).collect())
        }
    }
}

fn line(figure: &Figure, (suffix, value, unit, reference): (&'static str, f64, &'static str, usize), raw: Option<f64>) -> Line {
    let raw = raw.filter(|_| reference > 0);
    Line { broker: figure.broker, name: format!("{}{suffix}", figure.name), value, unit, raw, ratio: raw.map(|raw| value / raw) }
}

/// A worker in this process, until it is told to stop.
struct Running {
    stop: CancellationToken,
    task: tokio::task::JoinHandle<()>,
    counter: Arc<Counter>,
    starts: Arc<Starts>,
    lateness: Arc<Lateness>,
}

impl Running {
    fn start(client: &Client, concurrency: usize) -> Self {
        Running::serving(client, concurrency, &[])
    }

    /// Serves these queues; those of all tasks without any.
    fn serving(client: &Client, concurrency: usize, queues: &[String]) -> Self {
        let (stop, counter) = (CancellationToken::new(), Arc::new(Counter::default()));
        let (starts, lateness) = (Arc::new(Starts::default()), Arc::new(Lateness::default()));
        // Our tasks alone: those of the tests' clusters are linked in as well.
        let worker = Worker::new(client.clone()).registry(Registry::empty()).register::<noop>().register::<stamp>();
        let worker = worker.register::<due>().register::<age>().concurrency(concurrency);
        let mut worker = worker.state(counter.clone()).state(starts.clone()).state(lateness.clone());
        for queue in queues {
            worker = worker.queue(queue.as_str());
        }
        let stopped = stop.clone();
        let task = tokio::spawn(async move {
            if let Err(error) = worker.run(stopped.cancelled_owned()).await {
                eprintln!("the worker failed: {error}");
            }
        });
        Running { stop, task, counter, starts, lateness }
    }

    async fn stop(self) {
        self.stop.cancel();
        let _ = self.task.await;
    }
}

fn jobs(n: usize) -> impl Iterator<Item = Job<noop>> {
    let payload = hundred_bytes();
    (0..n).map(move |_| noop::job(payload.clone()))
}

async fn process(url: String, concurrency: usize, n: usize) -> Values {
    let client = Client::connect(&url).await?;
    client.enqueue_all(jobs(n)).await?;
    let begun = Instant::now();
    let running = Running::start(&client, concurrency);
    running.counter.want(n);
    running.counter.all(Duration::from_secs(120)).await?;
    let rate = n as f64 / begun.elapsed().as_secs_f64();
    running.stop().await;
    Ok(vec![("", rate, "jobs/s", 50)])
}

async fn process_queues(url: String, queues: Vec<String>, concurrency: usize, n: usize) -> Values {
    let client = Client::connect(&url).await?;
    client.enqueue_all(jobs(n).zip(queues.iter().cycle()).map(|(job, queue)| job.queue(queue))).await?;
    let begun = Instant::now();
    let running = Running::serving(&client, concurrency, &queues);
    running.counter.want(n);
    running.counter.all(Duration::from_secs(120)).await?;
    let rate = n as f64 / begun.elapsed().as_secs_f64();
    running.stop().await;
    Ok(vec![("", rate, "jobs/s", 1)])
}

async fn enqueue_queues(url: String, queues: Vec<String>, producers: usize, n: usize) -> Values {
    let client = Client::connect(&url).await?;
    for queue in &queues {
        client.enqueue(noop::job(hundred_bytes()).queue(queue)).await?;
    }
    let begun = Instant::now();
    let tasks = (0..producers).map(|producer| {
        let (client, queue) = (client.clone(), queues[producer % queues.len()].clone());
        tokio::spawn(async move {
            for job in jobs(n / producers) {
                client.enqueue(job.queue(&queue)).await?;
            }
            Ok::<_, Error>(())
        })
    });
    for task in join_all(tasks).await {
        task??;
    }
    Ok(vec![("", n as f64 / begun.elapsed().as_secs_f64(), "jobs/s", 1)])
}

async fn enqueue_concurrent(url: String, producers: usize, n: usize) -> Values {
    let client = Client::connect(&url).await?;
    client.enqueue(noop::job(hundred_bytes())).await?;
    let begun = Instant::now();
    let tasks = (0..producers).map(|_| {
        let client = client.clone();
        tokio::spawn(async move {
            for job in jobs(n / producers) {
                client.enqueue(job).await?;
            }
            Ok::<_, Error>(())
        })
    });
    for task in join_all(tasks).await {
        task??;
    }
    Ok(vec![("", n as f64 / begun.elapsed().as_secs_f64(), "jobs/s", 50)])
}

async fn enqueue_all(url: String, n: usize) -> Values {
    let client = Client::connect(&url).await?;
    client.enqueue(noop::job(hundred_bytes())).await?;
    let begun = Instant::now();
    client.enqueue_all(jobs(n)).await?;
    Ok(vec![("", n as f64 / begun.elapsed().as_secs_f64(), "jobs/s", 50)])
}

async fn enqueue_seq(url: String, n: usize) -> Values {
    let client = Client::connect(&url).await?;
    client.enqueue(noop::job(hundred_bytes())).await?;
    let begun = Instant::now();
    for job in jobs(n) {
        client.enqueue(job).await?;
    }
    Ok(vec![("", n as f64 / begun.elapsed().as_secs_f64(), "jobs/s", 1)])
}

async fn latency(url: String) -> Values {
    let client = Client::connect(&url).await?;
    let running = Running::start(&client, 10);
    let mut sent = Vec::new();
    for n in 0..1_100 {
        running.counter.want(1);
        sent.push(Instant::now());
        client.enqueue(stamp::job(n)).await?;
        running.counter.all(Duration::from_secs(10)).await?;
        tokio::time::sleep(Duration::from_millis(2)).await;
    }
    let starts = std::mem::take(&mut *running.starts.0.lock().expect("no holder panics"));
    running.stop().await;
    // The first hundred warm connections and caches up.
    let mut millis: Vec<f64> = starts.iter().skip(100).map(|(n, start)| (*start - sent[*n as usize]).as_secs_f64() * 1e3).collect();
    Ok(percentiles(&mut millis, "ms"))
}

fn percentiles(values: &mut [f64], unit: &'static str) -> Vec<(&'static str, f64, &'static str, usize)> {
    vec![("_p50", percentile(values, 50.0), unit, 0), ("_p99", percentile(values, 99.0), unit, 0)]
}

async fn lateness(url: String) -> Values {
    let client = Client::connect(&url).await?;
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
    let mut spread = take(&running.lateness);
    for delay in (20..500).step_by(8) {
        running.counter.want(1);
        client.enqueue(at(Duration::from_millis(delay))).await?;
        running.counter.all(Duration::from_secs(10)).await?;
    }
    let mut single = take(&running.lateness);
    running.stop().await;
    let early = spread.iter().chain(&single).filter(|late| **late < 0.0).count();
    Ok(vec![
        ("_p50", percentile(&mut spread, 50.0), "ms", 0),
        ("_p99", percentile(&mut spread, 99.0), "ms", 0),
        ("_single_p50", percentile(&mut single, 50.0), "ms", 0),
        ("_single_p99", percentile(&mut single, 99.0), "ms", 0),
        ("_early", early as f64, "jobs", 0),
    ])
}

fn take(lateness: &Lateness) -> Vec<f64> {
    std::mem::take(&mut *lateness.0.lock().expect("no holder panics")).into_iter().map(|us| us / 1e3).collect()
}

/// CPU time of the server per job through enqueue, claim and ack.
async fn server_us(server: &Server) -> Values {
    let n = 200_000;
    let cpu = || Ok::<_, Error>(server.info("cpu", "used_cpu_user")? + server.info("cpu", "used_cpu_sys")?);
    let begun = cpu()?;
    process(server.url(), 256, n).await?;
    Ok(vec![("", (cpu()? - begun) * 1e6 / n as f64, "us", 0)])
}

/// Bytes of the server per pending job beyond its payload of 100.
async fn memory(server: &Server) -> Values {
    let n = 200_000;
    let client = Client::connect(&server.url()).await?;
    client.enqueue(noop::job(hundred_bytes())).await?;
    let before = server.info("memory", "used_memory")?;
    client.enqueue_all(jobs(n)).await?;
    // While a hash table grows, both its tables are there.
    tokio::time::sleep(Duration::from_secs(2)).await;
    Ok(vec![("", (server.info("memory", "used_memory")? - before) / n as f64 - 100.0, "bytes", 0)])
}

async fn latency_across(url: String) -> Values {
    let client = Client::connect(&url).await?;
    let mut child =
        tokio::process::Command::new(std::env::current_exe()?).args(["--child", &url]).stdout(Stdio::piped()).kill_on_drop(true).spawn()?;
    let mut lines = BufReader::new(child.stdout.take().ok_or("the child has no output")?).lines();
    let mut millis = Vec::new();
    for n in 0..600 {
        client.enqueue(age::job(now_us())).await?;
        let line = tokio::time::timeout(Duration::from_secs(10), lines.next_line()).await??.ok_or("the child ended")?;
        if n >= 100 {
            millis.push(line.parse::<f64>()? / 1e3);
        }
        tokio::time::sleep(Duration::from_millis(2)).await;
    }
    child.kill().await?;
    Ok(percentiles(&mut millis, "ms"))
}

/// The worker of [`latency_across`]; it runs until it is killed.
pub(crate) async fn latency_child(url: &str) -> Result<(), Error> {
    let client = Client::connect(url).await?;
    let running = Running::start(&client, 10);
    running.task.await?;
    Ok(())
}
