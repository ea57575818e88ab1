//! What a job costs: commands and time of the server, time of the client.

use std::collections::BTreeMap;

use futures_util::FutureExt;
use rustix::time::{ClockId, clock_gettime};

use super::{enqueue, process::process};
use crate::{
    Error,
    frame::{Figure, Reading, Readings},
    server::Server,
};

pub(crate) fn figures() -> Vec<Figure> {
    let server_us = "CPU time of redis-server per job through `enqueue_all`, claim and ack, concurrency 256, 200,000 jobs.";
    let commands = "Per job, through `enqueue_c50` and `process_c64`: requests to the server, and commands with those inside scripts.";
    let client_us =
        "CPU time of the process per job, all threads, in `enqueue_all`, `enqueue_c50`, `process` and `process_c64` less their preloading.";
    vec![
        Figure::redis("server_us", server_us, |server| server_us_per_job(server).boxed()),
        Figure::redis("commands", commands, |server| commands_per_job(server).boxed()).most_runs(3),
        Figure::redis("client_us", client_us, |server| client_us_per_job(server).boxed()),
    ]
}

const JOBS: usize = 200_000;

async fn server_us_per_job(server: &Server) -> Readings {
    let begun = server.cpu_us()?;
    process(&server.url(), 256, JOBS).await?;
    Ok(vec![Reading::new("", (server.cpu_us()? - begun) / JOBS as f64, "us")])
}

async fn commands_per_job(server: &Server) -> Readings {
    let n = 100_000;
    let mut readings = Vec::new();
    let before = server.calls()?;
    enqueue::concurrently(&server.url(), 50, n).await?;
    let enqueued = server.calls()?;
    readings.extend(per_job("_enqueue", &before, &enqueued, n));
    server.flush()?;
    enqueue::all(&server.url(), n).await?;
    let all = server.calls()?;
    crate::figures::process::drain_all(&server.url(), 64, n).await?;
    readings.extend(per_job("_process", &all, &server.calls()?, n));
    Ok(readings)
}

fn per_job(suffix: &'static str, before: &BTreeMap<String, u64>, after: &BTreeMap<String, u64>, n: usize) -> [Reading; 2] {
    let more = |name: &str| after.get(name).unwrap_or(&0) - before.get(name).unwrap_or(&0);
    let requests = more("evalsha") + more("eval");
    // Our own looks are no part of it.
    let all: u64 = after.keys().filter(|name| !name.starts_with("info") && !name.starts_with("flush")).map(|name| more(name)).sum();
    [
        Reading::new(format!("{suffix}_requests"), requests as f64 / n as f64, "requests"),
        Reading::new(suffix, all as f64 / n as f64, "commands"),
    ]
}

async fn client_us_per_job(server: &Server) -> Readings {
    let mut readings = Vec::new();
    let mut costs = async |suffix: &'static str, work: futures_util::future::BoxFuture<'_, Result<f64, Error>>| {
        let begun = cpu_us();
        work.await?;
        readings.push(Reading::new(suffix, (cpu_us() - begun) / JOBS as f64, "us"));
        Ok::<_, Error>(())
    };
    let url = server.url();
    costs("_enqueue_all", enqueue::all(&url, JOBS).boxed()).await?;
    costs("_process", super::process::drain_all(&url, 256, JOBS).boxed()).await?;
    costs("_enqueue_c50", enqueue::concurrently(&url, 50, JOBS).boxed()).await?;
    costs("_process_c64", super::process::drain_all(&url, 64, JOBS).boxed()).await?;
    Ok(readings)
}

/// CPU time that this process has used, in microseconds.
fn cpu_us() -> f64 {
    let time = clock_gettime(ClockId::ProcessCPUTime);
    time.tv_sec as f64 * 1e6 + time.tv_nsec as f64 / 1e3
}
