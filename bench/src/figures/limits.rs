//! What limits cost, and how exactly they hold: many keys of which one job runs at once, and a
//! rate.

use std::{
    path::Path,
    sync::{
        Arc,
        atomic::{AtomicBool, AtomicUsize, Ordering},
    },
    time::{Duration, Instant},
};

use futures_util::FutureExt;
use queue_core::{Client, prelude::*};
use queue_worker::Worker;
use tokio_util::sync::CancellationToken;

use super::{process::process, sqlite::url};
use crate::{
    Error,
    frame::{Figure, Reading, Readings},
    server::Server,
    tasks::{Counter, Starts, hundred_bytes},
};

pub(crate) fn figures() -> Vec<Figure> {
    vec![
        Figure::redis(
            "limits",
            "`process` at 64 at once where the jobs are subject to a limit of one at once by 1,000 keys, beside `process` in the same run; how many \
             jobs ran beside another one of their key, and how many slots are held in the end.",
            |server| limits(server).boxed(),
        ),
        Figure::redis(
            "limits_busy",
            "Jobs of 10 to 100 ms, by chance, that are subject to a limit of one at once by 1,000 keys, 50 of each key, 1,024 at once: jobs per second, beside \
             the ideal, in which each key has its next job the moment the last one ends; how many jobs ran beside another one of their key, and how \
             many slots are held in the end.",
            |server| {
                let url = server.url();
                async move { busy(&url).await }.boxed()
            },
        )
        .most_runs(3),
        Figure::redis(
            "rate",
            "Jobs that are subject to a rate of 1,000 a second with a burst of 20: by how much the rate that is seen is another one, in percent, and the \
             most starts within 1 ms. The bound is the burst and one.",
            |server| {
                let url = server.url();
                async move { rate(&url).await }.boxed()
            },
        ),
        Figure::sqlite("sqlite_limits", "As `limits`, on SQLite, 20,000 jobs, beside the same jobs without a limit.", |folder| {
            on_sqlite(folder).boxed()
        }),
        Figure::sqlite("sqlite_limits_busy", "As `limits_busy`, on SQLite.", |folder| {
            let url = url(&folder.join("queue.db"));
            async move { busy(&url).await }.boxed()
        })
        .most_runs(3),
        Figure::sqlite("sqlite_rate", "As `rate`, on SQLite.", |folder| {
            let url = url(&folder.join("queue.db"));
            async move { rate(&url).await }.boxed()
        }),
    ]
}

const JOBS: usize = 100_000;
const KEYS: usize = 1_000;

/// Which keys run now, and how often one ran twice at once.
#[derive(Debug)]
struct Running {
    keys: Vec<AtomicBool>,
    over: AtomicUsize,
}

#[task(queue = "limited", limit(name = "one", by = [key], concurrency = 1))]
async fn limited(key: u64, data: String, running: Data<Arc<Running>>, counter: Data<Arc<Counter>>) {
    let own = &running.keys[usize::try_from(key).unwrap_or_default() % KEYS];
    if own.swap(true, Ordering::SeqCst) {
        running.over.fetch_add(1, Ordering::SeqCst);
    }
    tokio::task::yield_now().await;
    drop(data);
    own.store(false, Ordering::SeqCst);
    counter.seen_one();
}

#[task(queue = "busy", limit(name = "one", by = [key], concurrency = 1))]
async fn at_work(key: u64, millis: u64, running: Data<Arc<Running>>, counter: Data<Arc<Counter>>) {
    let own = &running.keys[usize::try_from(key).unwrap_or_default() % KEYS];
    if own.swap(true, Ordering::SeqCst) {
        running.over.fetch_add(1, Ordering::SeqCst);
    }
    tokio::time::sleep(Duration::from_millis(millis)).await;
    own.store(false, Ordering::SeqCst);
    counter.seen_one();
}

#[task(queue = "rated", limit(rate = "1000/1s", burst = 20))]
async fn rated(n: u64, starts: Data<Arc<Starts>>, counter: Data<Arc<Counter>>) {
    starts.0.lock().expect("no holder panics").push((n, Instant::now()));
    counter.seen_one();
}

async fn limits(server: &Server) -> Readings {
    server.flush()?;
    let usual = process(&server.url(), 64, JOBS).await?;
    server.flush()?;
    drained(&server.url(), JOBS, usual).await
}

async fn on_sqlite(folder: &Path) -> Readings {
    let n = 20_000;
    let usual = process(&url(&folder.join("usual.db")), 64, n).await?;
    drained(&url(&folder.join("limited.db")), n, usual).await
}

/// Jobs per second of one worker that drains `n` jobs with limits, beside `usual`; and whether the
/// limit held.
async fn drained(url: &str, n: usize, usual: f64) -> Readings {
    let client = Client::connect(url).await?;
    client.enqueue_all((0..n).map(|number| limited::job((number % KEYS) as u64, hundred_bytes()))).await?;
    let drained = drain(&client, "limited", n, 64).await?;
    Ok(drained.readings(usual, "`process` in the same run"))
}

async fn busy(url: &str) -> Readings {
    const OF_EACH: usize = 50;
    let n = KEYS * OF_EACH;
    let mut chance = fastrand::Rng::with_seed(26);
    let work: Vec<(u64, u64)> = (0..n).map(|number| ((number % KEYS) as u64, chance.u64(10..=100))).collect();
    let mut of_keys = vec![0; KEYS];
    for (key, millis) in &work {
        of_keys[*key as usize] += millis;
    }
    let longest = of_keys.into_iter().max().unwrap_or(0);
    let client = Client::connect(url).await?;
    client.enqueue_all(work.into_iter().map(|(key, millis)| at_work::job(key, millis))).await?;
    let drained = drain(&client, "busy", n, 1_024).await?;
    Ok(drained.readings(n as f64 * 1e3 / longest as f64, "the ideal: the work of the busiest key, one job after the other"))
}

/// How a worker has drained a queue with limits.
struct Drained {
    /// Jobs per second.
    rate: f64,
    /// Jobs that ran beside another one of their key.
    over: usize,
    /// Slots that are held when all jobs have ended.
    leaked: u64,
}

impl Drained {
    fn readings(&self, reference: f64, what: &'static str) -> Vec<Reading> {
        vec![
            Reading::new("", self.rate, "jobs/s").beside(reference, what),
            Reading::new("_over", self.over as f64, "jobs"),
            Reading::new("_leaked", self.leaked as f64, "slots"),
        ]
    }
}

/// Lets one worker run the `n` jobs of a queue.
async fn drain(client: &Client, queue: &str, n: usize, concurrency: usize) -> Result<Drained, Error> {
    let running = Arc::new(Running { keys: (0..KEYS).map(|_| AtomicBool::new(false)).collect(), over: AtomicUsize::new(0) });
    let (counter, stop) = (Arc::new(Counter::default()), CancellationToken::new());
    counter.want(n);
    let worker = Worker::new(client.clone()).register::<limited>().register::<at_work>();
    let worker = worker.data(running.clone()).data(counter.clone()).queue(queue).concurrency(concurrency);
    let (begun, stopped) = (Instant::now(), stop.clone());
    let task = tokio::spawn(async move { worker.run(stopped.cancelled_owned()).await.map(drop).map_err(|error| error.to_string()) });
    counter.all(Duration::from_secs(300)).await?;
    let rate = n as f64 / begun.elapsed().as_secs_f64();
    stop.cancel();
    task.await??;
    let leaked = client.inspector().limits(queue).await?.iter().map(|limit| limit.held).sum();
    Ok(Drained { rate, over: running.over.load(Ordering::SeqCst), leaked })
}

/// Three seconds and the burst.
const RATED: usize = 3_020;

async fn rate(url: &str) -> Readings {
    let client = Client::connect(url).await?;
    client.enqueue_all((0..RATED).map(|n| rated::job(n as u64))).await?;
    let (counter, starts, stop) = (Arc::new(Counter::default()), Arc::new(Starts::default()), CancellationToken::new());
    counter.want(RATED);
    let worker = Worker::new(client.clone()).register::<rated>().data(starts.clone()).data(counter.clone()).queue("rated").concurrency(256);
    let stopped = stop.clone();
    let task = tokio::spawn(async move { worker.run(stopped.cancelled_owned()).await.map(drop).map_err(|error| error.to_string()) });
    counter.all(Duration::from_secs(60)).await?;
    stop.cancel();
    task.await??;
    let mut seen: Vec<Instant> = starts.0.lock().expect("no holder panics").iter().map(|(_, at)| *at).collect();
    seen.sort_unstable();
    let took = seen[RATED - 1].duration_since(seen[20]).as_secs_f64();
    let error = ((RATED - 21) as f64 / took / 1000.0 - 1.0).abs() * 100.0;
    let window = Duration::from_millis(1);
    let within = |from: usize| seen[from..].iter().take_while(|at| at.duration_since(seen[from]) < window).count();
    let burst = (0..RATED).map(within).max().unwrap_or(0);
    Ok(vec![Reading::new("_error", error, "%"), Reading::new("_burst", burst as f64, "jobs")])
}
