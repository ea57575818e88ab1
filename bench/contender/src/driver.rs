//! The commands, the same for every contender.

use std::{
    path::Path,
    sync::Arc,
    time::{Duration, Instant},
};

use serde_json::{Value, json};
use tokio::task::JoinSet;

use crate::{
    Contender, Error,
    jobs::{Jobs, noop, now_us},
};

/// Producers that fill the queue of a contender without a bulk call.
const FILLERS: usize = 256;
/// Jobs that a bulk call is given at once.
const CHUNK: usize = 10_000;
/// The longest wait for jobs that should run. Programs of other projects' queues are built with
/// this crate, and not with ours.
const LONGEST_WAIT: Duration = Duration::from_secs(300);

/// The entry point of a contender's program: runs the command in its arguments. It ends the process
/// without waiting for other threads of a worker.
pub async fn main<C: Contender>() -> ! {
    let done = run::<C>(&std::env::args().skip(1).collect::<Vec<_>>()).await;
    if let Err(error) = &done {
        eprintln!("error: {error}");
    }
    std::process::exit(i32::from(done.is_err()))
}

/// Runs one command, and prints its result. The arguments are the URL, the command and the
/// arguments of the command.
pub async fn run<C: Contender>(arguments: &[String]) -> Result<(), Error> {
    println!("{}", command::<C>(arguments).await?);
    Ok(())
}

async fn command<C: Contender>(arguments: &[String]) -> Result<Value, Error> {
    let mut words = arguments.iter().map(String::as_str);
    let mut word = |what: &str| words.next().ok_or_else(|| format!("the argument {what} is missing"));
    let (url, command) = (word("URL")?, word("COMMAND")?);
    let mut number = |what: &str| Ok::<usize, Error>(word(what)?.parse().map_err(|error| format!("{what}: {error}"))?);
    match command {
        "about" => {
            let about = C::ABOUT;
            Ok(json!({
                "versions": about.versions,
                "settings": about.settings,
                "bulk": about.bulk,
                "delays": about.delays,
                "most_jobs": about.most_jobs,
            }))
        }
        "fill" => fill(C::connect(url).await?, vec![noop(); number("N")?]).await,
        "mark" => fill(C::connect(url).await?, (0..number("N")?).map(|n| format!("m{n}")).collect()).await,
        "enqueue" => enqueue(&C::connect(url).await?, vec![noop(); number("N")?], number("PRODUCERS")?).await,
        "drain" => drain(C::connect(url).await?, number("N")?, number("CONCURRENCY")?).await,
        "latency" => latency(C::connect(url).await?, Duration::from_secs(number("SECONDS")? as u64)).await,
        "lateness" => lateness(C::connect(url).await?).await,
        "work" => {
            let concurrency = number("CONCURRENCY")?;
            let jobs = Jobs::marking(Path::new(word("FILE")?))?;
            C::connect(url).await?.work(concurrency, Arc::new(jobs)).await?;
            Err("the worker stopped by itself".into())
        }
        other => Err(format!("unknown command {other}").into()),
    }
}

async fn fill<C: Contender>(contender: C, payloads: Vec<String>) -> Result<Value, Error> {
    if !C::ABOUT.bulk {
        return enqueue(&contender, payloads, FILLERS).await;
    }
    let mut payloads = payloads.into_iter();
    let begun = Instant::now();
    loop {
        let chunk: Vec<String> = payloads.by_ref().take(CHUNK).collect();
        if chunk.is_empty() {
            break;
        }
        contender.enqueue_all(chunk).await?;
    }
    Ok(json!({ "seconds": begun.elapsed().as_secs_f64() }))
}

async fn enqueue<C: Contender>(contender: &C, mut payloads: Vec<String>, producers: usize) -> Result<Value, Error> {
    let share = payloads.len().div_ceil(producers);
    let begun = Instant::now();
    let mut tasks = JoinSet::new();
    while !payloads.is_empty() {
        let mine = payloads.split_off(payloads.len().saturating_sub(share));
        let contender = contender.clone();
        tasks.spawn(async move {
            for payload in mine {
                contender.enqueue(payload, None).await?;
            }
            Ok::<_, Error>(())
        });
    }
    while let Some(ended) = tasks.join_next().await {
        ended??;
    }
    Ok(json!({ "seconds": begun.elapsed().as_secs_f64() }))
}

/// A worker in this process, which ends with it. `wanted` is the number of jobs to wait for first.
fn start<C: Contender>(contender: &C, concurrency: usize, wanted: usize) -> Arc<Jobs> {
    let (contender, jobs) = (contender.clone(), Arc::new(Jobs::default()));
    jobs.want(wanted);
    let handler = jobs.clone();
    tokio::spawn(async move {
        let ended = contender.work(concurrency, handler.clone()).await;
        handler.fail(ended.map_or_else(|error| error.to_string(), |()| "it stopped".to_owned()));
    });
    jobs
}

async fn drain<C: Contender>(contender: C, n: usize, concurrency: usize) -> Result<Value, Error> {
    let begun = Instant::now();
    let jobs = start(&contender, concurrency, n);
    jobs.all(LONGEST_WAIT).await?;
    let seconds = begun.elapsed().as_secs_f64();
    // The last jobs are acknowledged, so that all work of the server is counted.
    tokio::time::sleep(Duration::from_millis(300)).await;
    Ok(json!({ "seconds": seconds }))
}

async fn latency<C: Contender>(contender: C, time: Duration) -> Result<Value, Error> {
    let jobs = start(&contender, 10, 1);
    let until = Instant::now() + time;
    let (mut millis, mut pause_ms, mut warm) = (Vec::new(), 4.0, 0);
    while millis.len() < 1_000 && (millis.len() < 5 || Instant::now() < until) {
        jobs.want(1);
        let begun = Instant::now();
        contender.enqueue("s".to_owned(), None).await?;
        jobs.all(LONGEST_WAIT).await?;
        let start = jobs.latest().ok_or("a job that nobody enqueued has run")?;
        let ms = start.saturating_duration_since(begun).as_secs_f64() * 1e3;
        // Connections and caches are warmed up for at most a tenth of the time.
        if warm < 100 && Instant::now() + time * 9 / 10 < until {
            warm += 1;
        } else {
            millis.push(ms);
        }
        // The pause has a random length of up to twice the measured time, so that it is not in step
        // with the polls of a contender.
        pause_ms = f64::max(4.0, (pause_ms + 2.0 * ms) / 2.0);
        tokio::time::sleep(Duration::from_secs_f64(fastrand::f64() * pause_ms / 1e3)).await;
    }
    Ok(json!({ "p50": percentile(&mut millis, 50.0), "p99": percentile(&mut millis, 99.0) }))
}

async fn lateness<C: Contender>(contender: C) -> Result<Value, Error> {
    let jobs = start(&contender, 64, 10_000);
    let now_ms = now_us() / 1000;
    let mut tasks = JoinSet::new();
    for _ in 0..50 {
        let contender = contender.clone();
        tasks.spawn(async move {
            for _ in 0..200 {
                let due_ms = now_ms + 5_000 + fastrand::u64(..10_000);
                contender.enqueue(format!("d{due_ms}"), Some(due_ms)).await?;
            }
            Ok::<_, Error>(())
        });
    }
    while let Some(ended) = tasks.join_next().await {
        ended??;
    }
    jobs.all(LONGEST_WAIT).await?;
    let mut spread = jobs.lateness_ms();
    for delay_ms in (20..500).step_by(16) {
        jobs.want(1);
        let due_ms = now_us() / 1000 + delay_ms;
        contender.enqueue(format!("d{due_ms}"), Some(due_ms)).await?;
        jobs.all(LONGEST_WAIT).await?;
    }
    let mut single = jobs.lateness_ms();
    Ok(json!({
        "early": spread.iter().chain(&single).filter(|ms| **ms < 0.0).count(),
        "p50": percentile(&mut spread, 50.0),
        "p99": percentile(&mut spread, 99.0),
        "single_p50": percentile(&mut single, 50.0),
        "single_p99": percentile(&mut single, 99.0),
    }))
}

fn percentile(values: &mut [f64], p: f64) -> f64 {
    values.sort_by(f64::total_cmp);
    let last = values.len().saturating_sub(1);
    values.get((last as f64 * p / 100.0).round() as usize).copied().unwrap_or(f64::NAN)
}
