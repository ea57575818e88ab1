//! What handlers tell of their jobs, by whole workers: progress, logs, and the layer that puts
//! events into them.

use std::{sync::Arc, time::Duration};

use queue_conformance::conformance::Lane;
use queue_core::{
    __private::{RedisBroker, SqliteBroker},
    Client, Error, JobResult, LogLevel, Registry,
    broker::{DynBroker, JobProgress, ProgressReport, SweepLimits},
    observe::Calls,
    prelude::*,
};
use queue_tests::{
    folder::folder,
    on_servers,
    patience::{WatchBroker, patience, wait},
    server::{Kind, Server},
};
use queue_worker::{JobLogLayer, Worker};
use tokio::sync::Semaphore;
use tracing::Instrument;
use tracing_subscriber::{filter::LevelFilter, prelude::*};

on_servers! {
    progress_is_seen_while_a_job_runs_and_kept_with_it
    a_full_server_refuses_what_is_reported_and_takes_the_ending
    a_lane_that_knows_no_progress_keeps_it_out
    reports_of_removed_jobs_leave_nothing
}

const QUEUE: &str = "told";

/// Lets a handler go on, step by step.
struct Steps(Semaphore);

impl Steps {
    fn new() -> Arc<Self> {
        Arc::new(Steps(Semaphore::new(0)))
    }
}

/// Tells where it is at each step, and fails once.
#[task(queue = "told", retention = "1h", backoff(base = "10ms", max = "10ms"))]
async fn resize(images: u32, steps: Data<Arc<Steps>>, ctx: JobContext) -> Result<u32, String> {
    for image in 1..=images {
        steps.0.acquire().await.expect("it is never closed").forget();
        ctx.progress(f64::from(image) / f64::from(images), format!("image {image}"));
        ctx.progress_value(&[image, images]).map_err(|error| error.to_string())?;
    }
    ctx.log(format!("attempt {} has them", ctx.attempt()));
    if ctx.attempt() == 1 { Err("the disk is full".to_owned()) } else { Ok(images) }
}

/// Ends at once, and tells something before.
#[task(queue = "told", retention = "1h")]
async fn hasty(ctx: JobContext) {
    ctx.log("begins");
    ctx.log("ends");
    ctx.progress(1.0, "all");
}

#[task(queue = "told", retention = "1h")]
async fn silent() {}

/// Tells much more often than anybody can see.
#[task(queue = "told", retention = "1h")]
async fn chatty(ctx: JobContext) {
    let end = tokio::time::Instant::now() + Duration::from_millis(800);
    while tokio::time::Instant::now() < end {
        ctx.progress(0.5, "half");
        tokio::time::sleep(Duration::from_millis(2)).await;
    }
}

/// Logs as code does that knows nothing of jobs.
#[task(queue = "told", retention = "1h")]
async fn events(name: String) {
    tracing::info!(%name, "begins");
    tracing::debug!("is not wanted");
    let span = tracing::Span::current();
    tokio::spawn(async { tracing::warn!(n = 7, "in another task") }.instrument(span)).await.expect("it does not panic");
    tracing::info_span!("inner").in_scope(|| tracing::error!("in a span within"));
    // As `tracing-log` brings what is logged with `log`.
    tracing::info!(target: "log", { log.target = "mailer", log.module_path = "mailer::smtp", log.file = "smtp.rs", log.line = 7 }, "sent to {name}");
    tracing::warn!(target: "log", { log.target = "queue_core::redis", log.line = 8 }, "of the library itself");
}

async fn connected(server: &Server) -> (Client, DynBroker) {
    let broker: DynBroker = RedisBroker::connect(&server.url()).await.unwrap();
    (Client::with_broker(broker.clone()), broker)
}

fn worker(client: &Client) -> Worker {
    let worker = Worker::new(client.clone()).registry(Registry::empty()).data(Steps::new());
    worker.register::<resize>().register::<hasty>().register::<silent>().register::<chatty>().register::<events>()
}

fn key(kind: &str) -> String {
    format!("queue:{{{QUEUE}}}:{kind}")
}

async fn progress_is_seen_while_a_job_runs_and_kept_with_it(kind: Kind) {
    let server = Server::start(kind);
    let (client, _) = connected(&server).await;
    // The watcher is another process.
    let (elsewhere, _) = connected(&server).await;
    is_seen(&client, &elsewhere).await;
}

#[tokio::test]
async fn progress_is_seen_in_a_sqlite_file() {
    let folder = folder();
    let url = format!("sqlite://{}", folder.path().join("queue.db").display());
    is_seen(&Client::connect(&url).await.unwrap().watched(), &Client::connect(&url).await.unwrap().watched()).await;
}

async fn is_seen(client: &Client, elsewhere: &Client) {
    let (steps, job) = (Steps::new(), resize::job(4).enqueue(client).await.unwrap());
    let seen = elsewhere.handle::<resize>(job.address().clone());
    assert_eq!(seen.progress().await.unwrap(), None);
    let watches = async {
        let mut changes = seen.watch_progress();
        let mut next = async || wait("it hears of it").end_of(changes.next()).await.unwrap();
        for image in 1..=4u32 {
            steps.0.add_permits(1);
            let mut progress = next().await.expect("the job goes on");
            // Fraction and value are told one after the other.
            while progress.value::<[u32; 2]>().unwrap() != Some([image, 4]) {
                progress = next().await.expect("the job goes on");
            }
            assert_eq!(
                (progress.fraction, progress.message, progress.attempt),
                (Some(f64::from(image) / 4.0), format!("image {image}"), 1)
            );
        }
        // It has failed, and its progress stands until it tells another.
        steps.0.add_permits(4);
        let mut last = None;
        while let Some(progress) = next().await {
            last = Some(progress);
        }
        let last = last.expect("the second attempt has told something");
        assert_eq!((last.fraction, last.attempt), (Some(1.0), 2));
    };
    worker(client).data(steps.clone()).run(watches).await.unwrap();
    assert_eq!(seen.result().await.unwrap(), JobResult::Done(4));
    let log = seen.log().await.unwrap();
    let lines: Vec<(&str, u32)> = log.lines.iter().map(|line| (&*line.text, line.attempt)).collect();
    assert_eq!((lines, log.dropped), (vec![("attempt 1 has them", 1), ("attempt 2 has them", 2)], 0));
    assert_eq!(seen.progress().await.unwrap().unwrap().message, "image 4");
    let record = elsewhere.inspector().show(job.address()).await.unwrap();
    let json = serde_json::to_value(&record).unwrap();
    assert_eq!((json["progress"]["fraction"].as_f64(), &json["progress"]["value"]), (Some(1.0), &serde_json::json!([4, 4])));

    // What is told last goes before the ending, however soon that comes.
    let jobs = client.enqueue_all((0..100).map(|_| hasty::job())).await.unwrap();
    worker(client)
        .run(async {
            for job in &jobs {
                assert_eq!(job.wait(patience()).await.unwrap(), JobResult::Done(()));
            }
        })
        .await
        .unwrap();
    for job in jobs {
        let log = job.log().await.unwrap();
        assert_eq!(log.lines.iter().map(|line| &*line.text).collect::<Vec<_>>(), ["begins", "ends"]);
        assert_eq!(log.progress.unwrap().message, "all");
    }
}

async fn a_full_server_refuses_what_is_reported_and_takes_the_ending(kind: Kind) {
    let server = Server::start(kind);
    let (client, broker) = connected(&server).await;
    let job = hasty::job().enqueue(&client).await.unwrap();
    server.command(&["CONFIG", "SET", "maxmemory-policy", "noeviction"]);
    server.command(&["CONFIG", "SET", "maxmemory", "1"]);
    let mut request = ProgressReport::new(QUEUE, Lane::on(&broker, QUEUE).await.name);
    request.jobs.push(JobProgress::new(job.id().clone(), 1, 1));
    let refused = broker.store_progress(&request).await;
    assert!(matches!(refused, Err(Error::BrokerFull { .. })), "{refused:?}");
    worker(&client).run(async { assert_eq!(job.wait(patience()).await.unwrap(), JobResult::Done(())) }).await.unwrap();
    assert!(job.log().await.unwrap().lines.is_empty());
    // With room again, the next job is told of.
    server.command(&["CONFIG", "SET", "maxmemory", "0"]);
    let job = hasty::job().enqueue(&client).await.unwrap();
    worker(&client).run(async { drop(job.wait(patience()).await.unwrap()) }).await.unwrap();
    assert_eq!(job.log().await.unwrap().lines.len(), 2);
}

/// An older library would leave behind what was told of jobs that end.
async fn a_lane_that_knows_no_progress_keeps_it_out(kind: Kind) {
    let server = Server::start(kind);
    let (client, broker) = connected(&server).await;
    let (job, old) = (hasty::job().enqueue(&client).await.unwrap(), Lane::on(&broker, QUEUE).await);
    server.command(&["HSET", &key("knows"), old.name.as_str(), "lfkpcztahusw"]);
    let mut request = ProgressReport::new(QUEUE, old.name.clone());
    request.jobs.push(JobProgress::new(job.id().clone(), 1, 1));
    let refused = broker.store_progress(&request).await;
    assert!(matches!(refused, Err(Error::FeatureUnknown { .. })), "{refused:?}");
    worker(&client).run(async { assert_eq!(job.wait(patience()).await.unwrap(), JobResult::Done(())) }).await.unwrap();
    assert!(job.log().await.unwrap().lines.is_empty());
    assert_eq!(server.command(&["EXISTS", &key("logs"), &key("progress")]), ":0\r\n");
}

async fn reports_of_removed_jobs_leave_nothing(kind: Kind) {
    let server = Server::start(kind);
    let (client, broker) = connected(&server).await;
    let (job, other) = (hasty::job().enqueue(&client).await.unwrap(), silent::job().enqueue(&client).await.unwrap());
    worker(&client)
        .run(async {
            job.wait(patience()).await.unwrap();
            other.wait(patience()).await.unwrap();
        })
        .await
        .unwrap();
    assert_eq!(server.command(&["EXISTS", &key("logs"), &key("progress")]), ":2\r\n");
    let bits = || server.command(&["HGET", &key("meta"), "bits"]);
    assert!(bits().contains('j'), "{}", bits());
    client.inspector().delete(job.address()).await.unwrap();
    assert_eq!(server.command(&["EXISTS", &key("logs"), &key("progress")]), ":0\r\n");
    broker.sweep(QUEUE, &SweepLimits::default()).await.unwrap();
    assert!(!bits().contains('j') && bits().contains('k'), "{}", bits());
}

/// A library that knows no progress removes the row of a job, and what was told goes with it.
/// Before anything was told there is no trigger.
#[tokio::test]
async fn the_reports_of_a_job_are_removed_with_its_row() {
    let folder = folder();
    let path = folder.path().join("queue.db");
    let broker: DynBroker = SqliteBroker::open_path(&path).unwrap();
    let client = Client::with_broker(broker.clone());
    let other = rusqlite::Connection::open(&path).unwrap();
    let count = |sql: &str| other.query_row(sql, [], |row| row.get::<_, u32>(0)).unwrap();
    let triggers = || count("SELECT count(*) FROM sqlite_schema WHERE type = 'trigger'");
    let job = silent::job().enqueue(&client).await.unwrap();
    worker(&client).run(async { drop(job.wait(patience()).await.unwrap()) }).await.unwrap();
    assert_eq!(triggers(), 0, "nobody has told anything");
    let jobs = [hasty::job().enqueue(&client).await.unwrap(), hasty::job().enqueue(&client).await.unwrap()];
    worker(&client)
        .run(async {
            for job in &jobs {
                job.wait(patience()).await.unwrap();
            }
        })
        .await
        .unwrap();
    assert_eq!((triggers(), count("SELECT count(*) FROM queue_progress")), (1, 2));
    other.execute("DELETE FROM queue_jobs WHERE id = ?1", [jobs[0].id().as_bytes()]).unwrap();
    assert_eq!(count("SELECT count(*) FROM queue_progress"), 1);
    assert_eq!(jobs[1].log().await.unwrap().lines.len(), 2);
}

/// Whoever tells nothing makes no call, and whoever tells all the time makes about four a second.
#[tokio::test]
async fn reports_are_stored_four_times_a_second_at_most() {
    let calls = Arc::new(Calls::default());
    let client = Client::connect("sqlite://:memory:").await.unwrap().with_observer(calls.clone());
    let job = silent::job().enqueue(&client).await.unwrap();
    worker(&client).run(async { drop(job.wait(patience()).await.unwrap()) }).await.unwrap();
    assert!(!calls.snapshot().contains_key("store_progress"));
    let job = chatty::job().enqueue(&client).await.unwrap();
    worker(&client).run(async { drop(job.wait(patience()).await.unwrap()) }).await.unwrap();
    let stored = calls.snapshot()["store_progress"].calls;
    assert!((1..=6).contains(&stored), "{stored} calls in 0.8 s");
}

#[tokio::test]
async fn events_of_a_job_are_put_into_its_log() {
    let client = Client::connect("sqlite://:memory:").await.unwrap().watched();
    // While `tracing` knows a single subscriber, the thread that registers a callsite decides whether it
    // is enabled. That may be the thread of another test, which has no subscriber. Of two, it asks both.
    let _silent = tracing::Dispatch::new(tracing_subscriber::registry().with(LevelFilter::OFF));
    let _subscriber = tracing_subscriber::registry().with(JobLogLayer::new()).set_default();
    let jobs =
        [events::job("one".to_owned()).enqueue(&client).await.unwrap(), events::job("two".to_owned()).enqueue(&client).await.unwrap()];
    let ended = async {
        for job in &jobs {
            job.wait(patience()).await.unwrap();
        }
        tracing::info!("of no job");
    };
    worker(&client).run(ended).await.unwrap();
    for (job, name) in jobs.iter().zip(["one", "two"]) {
        let log = job.log().await.unwrap();
        let lines: Vec<(LogLevel, &str)> = log.lines.iter().map(|line| (line.level, &*line.text)).collect();
        let first = format!("begins name={name}");
        let last = format!("sent to {name}");
        let expected = [
            (LogLevel::Info, &*first),
            (LogLevel::Warn, "in another task n=7"),
            (LogLevel::Error, "in a span within"),
            (LogLevel::Info, &*last),
        ];
        assert_eq!(lines, expected);
    }
}
